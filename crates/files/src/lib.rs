//! Reading files that somebody else named.
//!
//! A setting, a recipe or a request may come over the network. A device, a pipe or a file without an end must cost a refusal,
//! not the process: [`open`] and [`read`] take regular files up to a size only, and [`read_while`] stops once nobody waits.
//! [`FileDigest`] is the SHA-256 digest of a file, [`Secret`] a token or key that is compared in constant time.
//!
//! Errors do not name the file: the caller knows which setting named it and says so.
#![forbid(unsafe_code)]

mod digest;
mod read;
mod secret;

pub use digest::{FileDigest, sha256};
pub use read::{ReadError, open, read, read_optional, read_while};
pub use secret::Secret;
