//! Compiles the `.proto` files with protox, so that nobody needs protoc, and keeps their descriptors for reflection.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;

const FILES: [&str; 5] = [
    "evenkeel/v1/common.proto",
    "evenkeel/v1/generation.proto",
    "evenkeel/v1/reward.proto",
    "evenkeel/v1/learner.proto",
    "evenkeel/v1/orchestrator.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    for file in FILES {
        println!("cargo::rerun-if-changed={file}");
    }
    let descriptors = protox::compile(FILES, ["."])?;
    let out_dir = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out_dir.join("evenkeel_v1.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        // The stubs take any transport; connecting is evenkeel-rpc's.
        .build_transport(false)
        // Maps in one order, so that equal messages are equal bytes.
        .btree_map(".")
        // An item is much larger than a cancel and the usual one: boxing it would cost an allocation for each.
        .enum_attribute(".", "#[allow(clippy::large_enum_variant)]")
        .compile_fds(descriptors)?;
    Ok(())
}
