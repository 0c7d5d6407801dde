//! The generated code is what the `.proto` files give. After an edit of one of them:
//!
//! ```sh
//! EVENKEEL_GENERATE=1 cargo test --release -p evenkeel-proto --test generated
//! ```
//!
//! The files are compiled with protox, so that nobody needs protoc.

use std::error::Error;
use std::path::Path;

use prost::Message;

const FILES: [&str; 8] = [
    "evenkeel/v1/common.proto",
    "evenkeel/v1/generation.proto",
    "evenkeel/v1/reward.proto",
    "evenkeel/v1/learner.proto",
    "evenkeel/v1/orchestrator.proto",
    "evenkeel/v1/ranks.proto",
    "evenkeel/v1/environment.proto",
    "evenkeel/v1/weights.proto",
];

const GRPC_ONLY: &str = "#[cfg(feature = \"grpc\")]";

fn generate(folder: &Path) -> Result<(), Box<dyn Error>> {
    let descriptors = protox::compile(FILES, [env!("CARGO_MANIFEST_DIR")])?;
    // For server reflection. Left alone if it is the same, since everything is compiled again after a write.
    let (file, content) = (folder.join("evenkeel.v1.binpb"), descriptors.encode_to_vec());
    if std::fs::read(&file).ok().as_ref() != Some(&content) {
        std::fs::write(file, content)?;
    }
    tonic_prost_build::configure()
        // The stubs take any transport; connecting is evenkeel-rpc's.
        .build_transport(false)
        // Who reads files of a run needs the messages alone.
        .client_mod_attribute(".", GRPC_ONLY)
        .server_mod_attribute(".", GRPC_ONLY)
        // Maps in one order, so that equal messages are equal bytes.
        .btree_map(".")
        // Not copied when they are read off the wire.
        .bytes(".evenkeel.v1.WeightsReadResponse.content")
        // An item is much larger than a cancel and the usual one: boxing it would cost an allocation for each.
        .enum_attribute(".", "#[allow(clippy::large_enum_variant)]")
        .out_dir(folder)
        .compile_fds(descriptors)?;
    Ok(())
}

#[test]
fn the_generated_code_is_that_of_the_proto_files() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated");
    if std::env::var_os("EVENKEEL_GENERATE").is_some() {
        return generate(&committed).unwrap();
    }
    let fresh = tempfile::tempdir().unwrap();
    generate(fresh.path()).unwrap();
    let mut files = 0;
    for file in std::fs::read_dir(fresh.path()).unwrap() {
        let name = file.unwrap().file_name();
        let [new, old] = [fresh.path(), &committed].map(|folder| std::fs::read(folder.join(&name)).unwrap_or_default());
        assert!(new == old, "src/generated/{} is out of date: run this test with EVENKEEL_GENERATE=1", name.display());
        files += 1;
    }
    assert_eq!(files, std::fs::read_dir(&committed).unwrap().count());
}
