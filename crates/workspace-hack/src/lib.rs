//! No code: see the manifest.
#![forbid(unsafe_code)]
