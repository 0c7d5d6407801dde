//! A cuDNN that is too old, and one of the next major version. A program of its own: libraries are opened once for each
//! process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use evenkeel_cuda::FOLDERS;
use evenkeel_cuda::cudnn::{CudnnError, version};

/// Every function that is looked up, and the version that the environment names.
const SOURCE: &str = "
#include <stdlib.h>
#define FUNCTION(name) int name(void) { return 1; }
FUNCTION(cudnnBackendCreateDescriptor) FUNCTION(cudnnBackendDestroyDescriptor) FUNCTION(cudnnBackendFinalize)
FUNCTION(cudnnBackendSetAttribute) FUNCTION(cudnnBackendGetAttribute) FUNCTION(cudnnBackendExecute)
FUNCTION(cudnnCreate) FUNCTION(cudnnDestroy) FUNCTION(cudnnSetStream)
FUNCTION(cudnnGetErrorString) FUNCTION(cudnnGetLastErrorString)
unsigned long cudnnGetVersion(void) { return strtoul(getenv(\"STUB_CUDNN\"), 0, 10); }
";

#[test]
fn an_older_cudnn_and_the_next_major_version_are_refused_with_its_file_its_version_and_how_to_get_a_newer_one() {
    let folder = tempfile::tempdir().unwrap();
    let [source, library] = ["cudnn.c", "libcudnn.so.9"].map(|name| folder.path().join(name));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    let output = compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // SAFETY: the only test of this program, before anything else reads the environment.
    unsafe { std::env::set_var(FOLDERS, folder.path()) };
    for (number, found) in [("91002", "9.10.2"), ("100100", "10.1.0")] {
        // SAFETY: as above.
        unsafe { std::env::set_var("STUB_CUDNN", number) };
        let error = version().unwrap_err();
        assert!(matches!(error, CudnnError::Version { .. }), "{error}");
        let wanted = format!(
            "{} is cuDNN {found}, allowed: 9.19 or a later 9; it comes with the Python package nvidia-cudnn-cu13",
            library.display()
        );
        assert_eq!(error.to_string(), wanted);
    }
}
