//! The sources of the guest: the files of `guest/` and the versions of the tools.

use evenkeel_host::FieldsDigest;

/// Requirement of the builder, as pip takes it.
pub const COMPONENTIZER: &str = "componentize-py==0.25.1";

/// Hashes of the builder's wheels for Linux (x86-64, ARM) and macOS (ARM, x86-64). pip accepts no others.
pub const WHEELS: [&str; 4] = [
    "8623cd8cab8453cb0cd8bf03f3c7103420d06f2f3d360186a280a70a1ca5e89f",
    "7b6a87c520358166843af0daa86d2312d7af4cbcbbf1e598951085cf7f2991ca",
    "a556991534cc496207a9d2ca733c4b0f17ed38ef56a8d6b5f1847fdf1225dd1b",
    "65fbc4a94df1de8acf7da50a1f5ed1711230188844e53e6332d99029be4e0afa",
];

/// The interface of the guest.
pub const WIT: (&str, &str) = ("sandbox.wit", include_str!("../../guest/wit/sandbox.wit"));

/// The guest's own modules and the scripts that build it.
pub const MODULES: [(&str, &str); 19] = [
    ("build.py", include_str!("../../guest/build.py")),
    ("definitions.py", include_str!("../../guest/definitions.py")),
    ("dense.py", include_str!("../../guest/dense.py")),
    ("exit_status.py", include_str!("../../guest/exit_status.py")),
    ("fixed_entropy.py", include_str!("../../guest/fixed_entropy.py")),
    ("foreign.py", include_str!("../../guest/foreign.py")),
    ("grader.py", include_str!("../../guest/grader.py")),
    ("guest.py", include_str!("../../guest/guest.py")),
    ("immortal.py", include_str!("../../guest/immortal.py")),
    ("header.py", include_str!("../../guest/header.py")),
    ("library.py", include_str!("../../guest/library.py")),
    ("maps.py", include_str!("../../guest/maps.py")),
    ("platform64.py", include_str!("../../guest/platform64.py")),
    ("process.py", include_str!("../../guest/process.py")),
    ("resource.py", include_str!("../../guest/resource.py")),
    ("threads.py", include_str!("../../guest/threads.py")),
    ("values.py", include_str!("../../guest/values.py")),
    ("warm.py", include_str!("../../guest/warm.py")),
    ("wide.py", include_str!("../../guest/wide.py")),
];

/// The linker: the digest of the sources of `crates/guest`, which includes the release of its encoder. When they
/// change, a test there fails and names the new value.
pub const LINKER_DIGEST: &str = "2fc073c13bd26c71";

/// File name of the component.
pub fn component_name() -> String {
    format!("guest-{}.wasm", &digest()[..16])
}

/// Identifies the guest that these sources produce.
pub(super) fn digest() -> String {
    let mut hash = FieldsDigest::new();
    let wheels = WHEELS.iter().map(|wheel| ("", *wheel));
    for (name, text) in MODULES.into_iter().chain([WIT, ("", COMPONENTIZER), ("", LINKER_DIGEST)]).chain(wheels) {
        hash.text(name).text(text);
    }
    hash.finish_hex()
}
