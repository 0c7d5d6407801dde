//! NVIDIA's driver and libraries, found at run time.
//!
//! A program that is linked against `libcuda.so.1` does not even start where there is no driver. So nothing here is
//! linked: [`open`] looks for a library in the usual places and says where it looked, [`Probe`] describes what a
//! machine has (driver, libraries, devices), and with the feature `link` on x86-64 this crate defines the functions
//! that candle's CUDA backend calls. Each of them finds its library at the first call. [`require`] opens all of them
//! before, so that what is missing is an error instead of an end of the process.

pub mod cudnn;
mod driver;
mod library;
#[cfg(all(feature = "link", target_os = "linux", target_arch = "x86_64"))]
mod link;
mod load;
mod probe;
mod search;

pub use driver::{Device, Driver, DriverError, answered};
pub use library::Library;
pub use probe::{LibraryReport, Probe, StatusOfDriver};
pub use search::{FOLDERS, LoadedLibrary, Missing, open};

/// What the README, the documentation and the probe say of training on a GPU; `None` where nothing has to be said.
/// docs/gpu.md says what has been run.
pub const STATUS: Option<&str> = Some("experimental: tested on one H200 only");

/// The first CUDA version whose libraries this program calls, as `cuDriverGetVersion` gives it: 1000 * major + 10 *
/// minor.
pub const CUDA: i32 = 13_000;

/// Why CUDA cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaUnavailable {
    /// The program was built without candle's CUDA backend.
    #[error("this build has no CUDA; build with --features cuda")]
    NotBuilt,
    /// A library is not there or cannot be loaded.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The driver is too old, or it finds no device.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// Opens the driver and every library that candle's CUDA backend calls, and keeps them open until the process ends.
///
/// # Errors
/// The first library that is missing, with the places that were searched; a driver older than the libraries; no device,
/// or one that does not answer within a minute.
pub fn require() -> Result<Driver, CudaUnavailable> {
    let driver = Driver::open()?;
    answered("loading its libraries", || Library::LINKED.into_iter().try_for_each(|library| open(library).map(drop)))??;
    #[cfg(all(feature = "link", target_os = "linux", target_arch = "x86_64"))]
    link::keep();
    driver.check_version()?;
    Ok(driver)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::STATUS;

    #[test]
    fn the_documents_say_of_the_gpu_what_the_constant_says() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for name in ["README.md", "docs/gpu.md", "docs/learner.md"] {
            let text = std::fs::read_to_string(root.join(name)).unwrap();
            match STATUS {
                Some(words) => assert!(text.contains(words), "{name} does not say: {words}"),
                None => assert!(!text.contains("experimental: "), "{name} still says so"),
            }
        }
    }
}
