//! The kernels as a program carries them: machine code for the architectures below, and PTX, which a driver compiles
//! for any later one.

use evenkeel_errors::FieldError;

/// Architectures with machine code of their own, 10 * major + minor, as in `build.rs`.
const ARCHITECTURES: [u32; 4] = [80, 90, 100, 120];

/// What a device loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// Machine code for an architecture: 90 for sm_90.
    MachineCode(u32),
    /// PTX, which the driver compiles.
    Ptx,
}

impl ImageKind {
    /// What a device of this compute capability (10 * major + minor) takes of what a toolkit made, with a driver that
    /// supports CUDA up to `driver`. Versions are 13000 for 13.0.
    ///
    /// Machine code runs on devices of the same major capability from its minor one on, with every driver of the
    /// toolkit's major version. PTX runs on all later devices, but only a driver as new as the toolkit knows its
    /// version.
    ///
    /// # Errors
    /// A device below 8.0, or a driver that takes neither.
    pub fn choose(capability: u32, driver: u32, toolkit: u32) -> Result<Self, FieldError> {
        let runs = |architecture: &&u32| **architecture / 10 == capability / 10 && **architecture <= capability;
        let version = |number: u32| format!("{}.{}", number / 1000, number % 1000 / 10);
        let of_device = |number: u32| format!("{}.{}", number / 10, number % 10);
        if capability < ARCHITECTURES[0] {
            return Err(FieldError::new("compute capability", of_device(capability), "8.0 or later"));
        }
        match ARCHITECTURES.iter().rev().find(runs) {
            Some(&architecture) if driver / 1000 >= toolkit / 1000 => Ok(Self::MachineCode(architecture)),
            None if driver >= toolkit => Ok(Self::Ptx),
            found => {
                let needed = if found.is_some() { toolkit / 1000 * 1000 } else { toolkit };
                let allowed = format!(
                    "{} or later: the program was built by CUDA {}, and this device has compute capability {}",
                    version(needed),
                    version(toolkit),
                    of_device(capability)
                );
                Err(FieldError::new("the driver's version of CUDA", version(driver), allowed))
            }
        }
    }
}

#[cfg(feature = "images")]
mod built {
    use super::ImageKind;

    /// A file of kernels, compiled.
    struct File {
        name: &'static str,
        machine_code: [&'static [u8]; super::ARCHITECTURES.len()],
        ptx: &'static [u8],
    }

    include!(concat!(env!("OUT_DIR"), "/images.rs"));

    /// A file of kernels as a device loads it.
    pub struct Image {
        /// The name of its source.
        pub name: &'static str,
        /// What the driver is given.
        pub bytes: &'static [u8],
        pub kernels: Vec<&'static str>,
    }

    impl ImageKind {
        /// The version of the toolkit that compiled them: 13000 for 13.0.
        pub const TOOLKIT: u32 = CUDA;

        /// Every file of kernels.
        pub fn images(self) -> Vec<Image> {
            let image_of = |file: &File| {
                let machine_code = |wanted| super::ARCHITECTURES.iter().position(|&each| each == wanted);
                let bytes = match self {
                    Self::MachineCode(architecture) => machine_code(architecture).map(|at| file.machine_code[at]),
                    Self::Ptx => None,
                };
                let lines = std::str::from_utf8(file.ptx).unwrap_or_default().lines();
                let kernels = lines.filter_map(super::kernel_of).collect();
                Image { name: file.name, bytes: bytes.unwrap_or(file.ptx), kernels }
            };
            FILES.iter().map(image_of).collect()
        }
    }
}

#[cfg(feature = "images")]
pub use built::Image;

/// The kernel that a line of PTX begins.
#[cfg(any(feature = "images", test))]
fn kernel_of(line: &str) -> Option<&str> {
    line.split_once(".entry ")?.1.split('(').next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(capability: u32, driver: u32, toolkit: u32) -> Result<ImageKind, String> {
        ImageKind::choose(capability, driver, toolkit).map_err(|error| error.to_string())
    }

    #[test]
    fn a_device_takes_the_machine_code_of_its_own_family() {
        let families = [(80, 80), (86, 80), (89, 80), (90, 90), (100, 100), (103, 100), (120, 120), (121, 120)];
        for (capability, architecture) in families {
            assert_eq!(choice(capability, 13_000, 13_000), Ok(ImageKind::MachineCode(architecture)), "{capability}");
        }
    }

    #[test]
    fn a_driver_older_than_the_toolkit_takes_its_machine_code_within_a_major_version() {
        assert_eq!(choice(90, 13_000, 13_020), Ok(ImageKind::MachineCode(90)));
        assert_eq!(choice(90, 14_000, 13_020), Ok(ImageKind::MachineCode(90)));
        assert_eq!(
            choice(90, 12_080, 13_020).unwrap_err(),
            "the driver's version of CUDA is 12.8, allowed: 13.0 or later: the program was built by CUDA 13.2, and \
             this device has compute capability 9.0"
        );
    }

    #[test]
    fn a_device_without_machine_code_takes_ptx_from_a_driver_as_new_as_the_toolkit() {
        assert_eq!(choice(110, 13_020, 13_020), Ok(ImageKind::Ptx));
        assert_eq!(choice(130, 14_000, 13_020), Ok(ImageKind::Ptx));
        assert_eq!(
            choice(110, 13_000, 13_020).unwrap_err(),
            "the driver's version of CUDA is 13.0, allowed: 13.2 or later: the program was built by CUDA 13.2, and \
             this device has compute capability 11.0"
        );
    }

    #[test]
    fn a_device_before_the_first_architecture_is_refused() {
        assert_eq!(choice(75, 13_000, 13_000).unwrap_err(), "compute capability is 7.5, allowed: 8.0 or later");
    }

    #[test]
    fn kernels_are_found_in_ptx_by_name() {
        assert_eq!(kernel_of(".visible .entry rms_norm_f32_wide_warp("), Some("rms_norm_f32_wide_warp"));
        assert_eq!(kernel_of("\tret;"), None);
    }
}
