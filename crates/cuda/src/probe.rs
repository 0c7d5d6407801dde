//! What a machine has.

use std::ffi::c_int;
use std::fmt;

use evenkeel_host::Size;
use serde::Serialize;

use crate::STATUS;
use crate::driver::{Device, Driver, DriverError, answered, capability_text, version};
use crate::library::Library;
use crate::search::{LoadedLibrary, open};

/// What a machine has.
#[derive(Clone, Debug, Serialize)]
pub struct Probe {
    /// What is known of training on a GPU, [`STATUS`]; absent once nothing has to be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// Whether a build with CUDA can train here.
    pub usable: bool,
    pub driver: StatusOfDriver,
    /// Every library, found or not.
    pub libraries: Vec<LibraryReport>,
    /// Every device that the driver shows.
    pub devices: Vec<Device>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct StatusOfDriver {
    /// The version of the kernel module, as `580.65.06`.
    pub module: Option<String>,
    /// The CUDA version that the driver supports, as `13.0`.
    pub cuda: Option<String>,
    /// Why the driver cannot be used; absent if it can.
    pub problem: Option<String>,
}

/// A library, or where it was searched.
#[derive(Clone, Debug, Serialize)]
pub struct LibraryReport {
    pub library: Library,
    /// The file name that was searched.
    pub file: &'static str,
    /// Purpose of the library.
    pub purpose: &'static str,
    /// Whether training needs it.
    pub needed: bool,
    pub path: Option<String>,
    /// Version that the library reports.
    pub version: Option<String>,
    /// The places that were searched without success.
    pub searched: Vec<String>,
    /// Why an existing file could not be loaded.
    pub broken: Vec<String>,
    /// Files of another version that were found instead.
    pub other_versions: Vec<String>,
    /// How to get it, if it is missing.
    pub source: Option<&'static str>,
}

impl Probe {
    /// Looks at this machine. Nothing that is missing is an error.
    pub fn of_this_machine() -> Self {
        let libraries = answered("loading its libraries", || Library::ALL.map(LibraryReport::of).to_vec());
        let mut driver = StatusOfDriver { module: module_version(), ..StatusOfDriver::default() };
        let mut devices = Vec::new();
        match Driver::open() {
            Ok(opened) => {
                driver.cuda = opened.version().ok().map(version);
                driver.problem = opened.check_version().err().map(|error| error.to_string());
                match opened.devices() {
                    Ok(found) => devices = found,
                    Err(error) => driver.problem = Some(error.to_string()),
                }
            }
            Err(error) => driver.problem = Some(error.to_string()),
        }
        let libraries = libraries.unwrap_or_else(|error| {
            driver.problem = Some(error.to_string());
            Vec::new()
        });
        Self::new(driver, libraries, devices)
    }

    fn new(driver: StatusOfDriver, libraries: Vec<LibraryReport>, devices: Vec<Device>) -> Self {
        let complete = libraries.iter().all(|report| report.path.is_some() || !report.needed);
        // What runs without a number takes the first device.
        let device = devices.first().is_some_and(|device| device.check().is_ok());
        Self { status: STATUS, usable: complete && driver.problem.is_none() && device, driver, libraries, devices }
    }
}

impl LibraryReport {
    fn of(library: Library) -> Self {
        let mut report = Self {
            library,
            file: library.file(),
            purpose: library.purpose(),
            needed: Library::LINKED.contains(&library),
            path: None,
            version: None,
            searched: Vec::new(),
            broken: Vec::new(),
            other_versions: Vec::new(),
            source: None,
        };
        match open(library) {
            Ok(opened) => {
                report.path = Some(opened.path().display().to_string());
                report.version = version_of(opened);
            }
            Err(missing) => {
                (report.searched, report.broken) = (missing.searched, missing.broken);
                report.other_versions = missing.other_versions;
                report.source = Some(library.source());
            }
        }
        report
    }
}

/// The version that a library gives of itself.
fn version_of(opened: LoadedLibrary) -> Option<String> {
    type Number = unsafe extern "C" fn() -> usize;
    type Into = unsafe extern "C" fn(*mut c_int) -> c_int;
    type Pair = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    type Property = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
    let number = |name| {
        // SAFETY: the type of the two functions that this is called for.
        opened.address(name).map(|at| unsafe { std::mem::transmute::<*const (), Number>(at)() } as i64)
    };
    let into = |name| {
        let address = opened.address(name)?;
        let mut value = 0;
        // SAFETY: the type of the two functions that this is called for; they write one integer.
        let code = unsafe { std::mem::transmute::<*const (), Into>(address)(&raw mut value) };
        (code == 0).then_some(i64::from(value))
    };
    match opened.library {
        // The version of CUDA that a driver supports stands with the driver.
        Library::Driver => None,
        Library::CublasLt => number("cublasLtGetVersion").map(|v| dotted(v, 10_000)),
        Library::Cublas => {
            let address = opened.address("cublasGetProperty")?;
            // SAFETY: the type of the function.
            let property = unsafe { std::mem::transmute::<*const (), Property>(address) };
            let part = |which| {
                let mut value = 0;
                // SAFETY: writes one integer: the major version, the minor one, the patch.
                (unsafe { property(which, &raw mut value) } == 0).then_some(value)
            };
            Some(format!("{}.{}.{}", part(0)?, part(1)?, part(2)?))
        }
        Library::Curand => into("curandGetVersion").map(|v| dotted(v, 1000)),
        Library::Nvrtc => {
            let address = opened.address("nvrtcVersion")?;
            let mut major = 0;
            let mut minor = 0;
            // SAFETY: the type of the function; it writes two integers.
            let code = unsafe { std::mem::transmute::<*const (), Pair>(address)(&raw mut major, &raw mut minor) };
            (code == 0).then(|| format!("{major}.{minor}"))
        }
        Library::Cudnn => number("cudnnGetVersion").map(|v| dotted(v, 10_000)),
        Library::Nccl => into("ncclGetVersion").map(|v| dotted(v, 10_000)),
    }
}

/// `9.19.0` of 91900, where `major` is 10000: what follows the major version has two digits each, or one and two.
fn dotted(number: i64, major: i64) -> String {
    format!("{}.{}.{}", number / major, number % major / 100, number % 100)
}

/// The version of the loaded kernel module.
fn module_version() -> Option<String> {
    std::fs::read_to_string("/sys/module/nvidia/version").ok().map(|text| text.trim().to_owned())
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = || "unknown".to_owned();
        match &self.driver.problem {
            None => writeln!(
                f,
                "driver     {}, CUDA {}",
                self.driver.module.clone().unwrap_or_else(unknown),
                self.driver.cuda.clone().unwrap_or_else(unknown)
            )?,
            Some(problem) => writeln!(f, "driver     {problem}")?,
        }
        for report in &self.libraries {
            write!(f, "library    {:<18} ", report.file)?;
            match &report.path {
                Some(path) => writeln!(f, "{} ({path})", report.version.clone().unwrap_or_else(unknown))?,
                None if !report.broken.is_empty() => writeln!(f, "cannot be loaded: {}", report.broken.join("; "))?,
                None => {
                    let source = report.source.unwrap_or_default();
                    let need = if report.needed { "missing" } else { "missing, not required" };
                    let others = match report.other_versions.as_slice() {
                        [] => String::new(),
                        files => format!("; of another version: {}", files.join(", ")),
                    };
                    writeln!(f, "{need} ({}): {source}{others}", report.purpose)?;
                }
            }
        }
        if let Some(missing) = self.libraries.iter().find(|report| report.path.is_none()) {
            writeln!(f, "searched   {}", missing.searched.join(", "))?;
        }
        for device in &self.devices {
            writeln!(
                f,
                "device {}   {}, compute capability {}{}, {} GiB, {} multiprocessors",
                device.cuda_device_id,
                device.device_name,
                capability_text(device.device_ver),
                match device.check() {
                    Ok(()) => "",
                    Err(DriverError::Prohibited { .. }) => " (its compute mode is Prohibited)",
                    Err(_) => " (not supported: 8.0 or later is)",
                },
                Size(device.total_global_mem as u64).in_gib(),
                device.multi_processor_count
            )?;
        }
        if let Some(status) = self.status {
            writeln!(f, "status     {status}")?;
        }
        let answer = if self.usable { "training on a GPU is possible" } else { "no GPU can be used here" };
        write!(f, "{answer}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_is_reported_with_its_file_or_with_the_places_that_were_searched() {
        let probe = Probe::of_this_machine();
        assert_eq!(probe.libraries.len(), Library::ALL.len());
        for report in &probe.libraries {
            assert!(report.path.is_some() || !report.searched.is_empty(), "{report:?}");
            assert_eq!(report.source.is_some(), report.path.is_none(), "{report:?}");
        }
    }

    fn found(library: Library) -> LibraryReport {
        LibraryReport {
            library,
            file: library.file(),
            purpose: library.purpose(),
            needed: Library::LINKED.contains(&library),
            path: Some(format!("/lib/{}", library.file())),
            version: None,
            searched: Vec::new(),
            broken: Vec::new(),
            other_versions: Vec::new(),
            source: None,
        }
    }

    type Change<'a> = &'a dyn Fn(&mut StatusOfDriver, &mut Vec<LibraryReport>, &mut Vec<Device>);

    fn device() -> Device {
        serde_json::from_str(include_str!("../tests/h200.json")).unwrap()
    }

    #[test]
    fn a_machine_is_usable_with_a_driver_a_device_and_every_needed_library() {
        let libraries = Vec::from(Library::ALL.map(found));
        let driver = StatusOfDriver::default();
        let probe = |change: Change<'_>| {
            let mut driver = driver.clone();
            let mut libraries = libraries.clone();
            let mut devices = vec![device()];
            change(&mut driver, &mut libraries, &mut devices);
            Probe::new(driver, libraries, devices)
        };
        let whole = probe(&|_, _, _| {});
        assert!(whole.usable);
        assert!(whole.to_string().contains("device 0   NVIDIA H200, compute capability 9.0, 140.4 GiB"), "{whole}");
        assert!(!probe(&|driver, _, _| driver.problem = Some("no driver".into())).usable);
        assert!(!probe(&|_, _, devices| devices.clear()).usable);
        let old = probe(&|_, _, devices| devices[0].device_ver = 750);
        assert!(!old.usable && old.to_string().contains("7.5 (not supported: 8.0 or later is)"), "{old}");
        let closed = probe(&|_, _, devices| devices[0].compute_mode = 2);
        assert!(!closed.usable && closed.to_string().contains("(its compute mode is Prohibited)"), "{closed}");
        for library in Library::ALL {
            let without = probe(&|_, libraries, _| {
                libraries.iter_mut().filter(|report| report.library == library).for_each(|report| report.path = None);
            });
            assert_eq!(without.usable, !Library::LINKED.contains(&library), "{library:?}");
        }
    }

    #[test]
    fn versions_are_written_as_their_packages_are_named() {
        assert_eq!(dotted(91_900, 10_000), "9.19.0");
        assert_eq!(dotted(130_101, 10_000), "13.1.1");
        assert_eq!(dotted(10_400, 1000), "10.4.0");
        assert_eq!(version(13_000), "13.0");
    }
}
