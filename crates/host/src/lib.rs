//! Reading files whose paths come from outside.
//!
//! A setting, a recipe or a request may come over the network, so a path may name a device, a pipe or an endless file.
//! [`open`] and [`read`] accept only regular files up to a given size, and [`read_while`] stops when reading is
//! cancelled. [`replace`] replaces a file as a whole, [`write()`] and [`sync_folder`] write what has to survive a power
//! failure, [`check_writable`] says beforehand whether a folder can be written, and [`private_folder`] makes one that
//! nobody else may write to. [`cache_folder`] is where the user keeps what may be lost. [`FileStamp`] tells whether a
//! file is still the one that was read. [`FileDigest`] is the SHA-256 digest of a file, [`DigestWriter`] makes it while the
//! file is written and [`FileHasher`] while it is read, [`FieldsDigest`] is that of several texts and [`tests_digest`]
//! that of the tests of a program. [`Secret`] is a token or key that is compared in constant time, [`free_space`] says
//! how much room a disk has left and [`available_memory`] how much memory there is, and [`Size`] and [`hex`] are how
//! sizes and bytes are written.
//!
//! Errors do not name the file: the caller knows which setting it came from and adds that.
#![forbid(unsafe_code)]

pub mod arriving;
mod cache;
mod digest;
mod fields_digest;
mod hex;
mod memory;
mod private_folder;
mod read;
mod replace;
mod secret;
mod size;
mod space;
mod stamp;
mod tests_digest;
mod writable;
mod write;

pub use cache::cache_folder;
pub use digest::{DigestWriter, FileDigest, FileHasher, sha256};
pub use fields_digest::FieldsDigest;
pub use hex::hex;
pub use memory::available_memory;
pub use private_folder::private_folder;
pub use read::{ReadError, open, read, read_optional, read_while};
pub use replace::{replace, replace_with};
pub use secret::Secret;
pub use size::Size;
pub use space::{Space, free_space};
pub use stamp::FileStamp;
pub use tests_digest::tests_digest;
pub use writable::check_writable;
pub use write::{sync_folder, write};
