//! The driver: its version and its devices.

mod answers;
mod api;
mod device;
mod error;

use std::ffi::{CStr, c_char, c_int};
use std::path::Path;

pub use answers::answered;
use answers::{ANSWERS, Answers};
use api::Api;
pub use device::Device;
pub use error::DriverError;
pub(crate) use error::{capability_text, version};

use crate::CUDA;
use crate::library::Library;
use crate::search::open;

#[derive(Clone, Copy)]
pub struct Driver {
    api: Api,
    path: &'static Path,
    answers: &'static Answers,
}

impl Driver {
    /// Opens and initialises it.
    ///
    /// # Errors
    /// No driver, no device, or a driver that does not work or does not answer within a minute.
    pub fn open() -> Result<Self, DriverError> {
        answered("opening the driver", || {
            let opened = open(Library::Driver)?;
            let driver = Self { api: Api::of(opened)?, path: opened.path(), answers: &ANSWERS };
            driver.initialise()?;
            Ok(driver)
        })?
    }

    fn initialise(&self) -> Result<(), DriverError> {
        // SAFETY: the flags must be 0.
        self.check("cuInit", unsafe { (self.api.init)(0) })
    }

    pub fn path(&self) -> &Path {
        self.path
    }

    /// The CUDA version that it supports, 13000 for 13.0.
    ///
    /// # Errors
    /// The call fails.
    pub fn version(&self) -> Result<i32, DriverError> {
        let mut version = 0;
        // SAFETY: writes one integer.
        self.check("cuDriverGetVersion", unsafe { (self.api.driver_version)(&raw mut version) })?;
        Ok(version)
    }

    /// Refuses a driver that is older than the libraries.
    ///
    /// # Errors
    /// [`DriverError::TooOld`].
    pub fn check_version(&self) -> Result<(), DriverError> {
        match self.version()? {
            version if version < CUDA => Err(DriverError::TooOld(version)),
            _ => Ok(()),
        }
    }

    /// Every device.
    ///
    /// # Errors
    /// A call fails, or they do not answer within a minute.
    pub fn devices(&self) -> Result<Vec<Device>, DriverError> {
        let driver = *self;
        self.answers.of("describing its devices", move || driver.describe_all())?
    }

    fn describe_all(&self) -> Result<Vec<Device>, DriverError> {
        let mut count = 0;
        // SAFETY: writes one integer.
        self.check("cuDeviceGetCount", unsafe { (self.api.device_count)(&raw mut count) })?;
        (0..count).map(|number| self.describe(number)).collect()
    }

    /// Whether there is a device of that number that the kernels can run on.
    ///
    /// # Errors
    /// [`DriverError::NoSuchDevice`], those of [`Device::check`], or a call fails.
    pub fn check_device(&self, number: usize) -> Result<(), DriverError> {
        let devices = self.devices()?;
        let device = devices.get(number).ok_or(DriverError::NoSuchDevice { number, count: devices.len() })?;
        device.check()
    }

    fn describe(&self, number: i32) -> Result<Device, DriverError> {
        let mut device = 0;
        // SAFETY: writes one integer.
        self.check("cuDeviceGet", unsafe { (self.api.device)(&raw mut device, number) })?;
        let mut name = [0 as c_char; 256];
        // SAFETY: writes at most as many characters as it is given, the last a 0.
        self.check("cuDeviceGetName", unsafe { (self.api.name)(name.as_mut_ptr(), 256, device) })?;
        name[255] = 0;
        let mut memory = 0;
        // SAFETY: writes one integer.
        self.check("cuDeviceTotalMem_v2", unsafe { (self.api.memory)(&raw mut memory, device) })?;
        let get = |attribute: c_int| {
            let mut value = 0;
            // SAFETY: writes one integer; an unknown attribute is an error.
            let code = unsafe { (self.api.attribute)(&raw mut value, attribute, device) };
            self.check("cuDeviceGetAttribute", code).map(|()| value)
        };
        let three = |first| Ok::<_, DriverError>([get(first)?, get(first + 1)?, get(first + 2)?]);
        Ok(Device {
            cuda_device_id: number,
            // SAFETY: ends with a 0.
            device_name: unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned(),
            device_ver: 100 * get(75)? + 10 * get(76)?,
            driver_ver: self.version()?,
            total_global_mem: memory,
            multi_processor_count: get(16)?,
            sm_clock_rate_khz: get(13)?,
            mem_clock_rate_khz: get(36)?,
            l2_cache_size: get(38)?,
            warp_size: get(10)?,
            max_grid_size: three(5)?,
            max_block_size: three(2)?,
            regs_per_block: get(12)?,
            max_registers_per_sm: get(82)?,
            max_shared_memory_per_block: get(8)?,
            max_shared_memory_per_block_optin: get(97)?,
            reserved_shared_memory_per_block: get(111)?,
            max_ctas_per_sm: get(106)?,
            max_threads_per_block: get(1)?,
            max_threads_per_sm: get(39)?,
            pci_device_id: get(34)?,
            is_tcc_driver: get(35)?,
            support_coop_launch: get(95)?,
            ecc_enabled: get(32)?,
            compute_mode: get(20)?,
        })
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), DriverError> {
        if code == 0 {
            return Ok(());
        }
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: writes a pointer to a constant text, or null for an unknown code.
        let known = unsafe { (self.api.error_text)(code, &raw mut text) } == 0 && !text.is_null();
        // SAFETY: checked; the driver's texts end with a 0 and live as long as it does.
        let name = known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        Err(DriverError::Call {
            call,
            code,
            name: name.unwrap_or_else(|| "an error that the driver does not name".into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    unsafe extern "C" fn init(_: u32) -> c_int {
        0
    }

    unsafe extern "C" fn one(value: *mut c_int) -> c_int {
        // SAFETY: a valid pointer.
        unsafe { *value = 1 };
        0
    }

    unsafe extern "C" fn old(value: *mut c_int) -> c_int {
        // SAFETY: a valid pointer.
        unsafe { *value = 12_080 };
        0
    }

    unsafe extern "C" fn device(value: *mut c_int, number: c_int) -> c_int {
        // SAFETY: a valid pointer.
        unsafe { *value = number };
        0
    }

    unsafe extern "C" fn name(text: *mut c_char, _: c_int, _: c_int) -> c_int {
        // SAFETY: a buffer of 256 characters.
        unsafe { std::ptr::copy_nonoverlapping(c"NVIDIA H200".as_ptr(), text, 12) };
        0
    }

    unsafe extern "C" fn memory(bytes: *mut usize, _: c_int) -> c_int {
        // SAFETY: a valid pointer.
        unsafe { *bytes = 150_754_820_096 };
        0
    }

    unsafe extern "C" fn attribute(value: *mut c_int, attribute: c_int, _: c_int) -> c_int {
        // SAFETY: a valid pointer.
        unsafe { *value = if attribute == 75 { 9 } else { 0 } };
        0
    }

    unsafe extern "C" fn turing(value: *mut c_int, attribute: c_int, _: c_int) -> c_int {
        // SAFETY: a valid pointer.
        unsafe { *value = if attribute == 75 { 7 } else { 5 } };
        0
    }

    unsafe extern "C" fn broken(_: *mut c_int, _: c_int, _: c_int) -> c_int {
        214
    }

    unsafe extern "C" fn text(code: c_int, text: *mut *const c_char) -> c_int {
        if code == 214 {
            // SAFETY: a valid pointer.
            unsafe { *text = c"uncorrectable ECC error encountered".as_ptr() };
        }
        0
    }

    fn driver() -> Driver {
        let api =
            Api { init, driver_version: old, device_count: one, device, name, memory, attribute, error_text: text };
        Driver { api, path: Path::new("libcuda.so.1"), answers: &ANSWERS }
    }

    #[test]
    fn a_device_is_described_under_the_names_of_cudnn() {
        let devices = driver().devices().unwrap();
        let json = serde_json::to_value(&devices).unwrap();
        assert_eq!(json[0]["deviceName"], "NVIDIA H200");
        assert_eq!(json[0]["deviceVer"], 900);
        assert_eq!(json[0]["totalGlobalMem"], 150_754_820_096u64);
        for key in ["smClockRateKHz", "maxCtasPerSM", "maxSharedMemoryPerBlockOptin", "multiProcessorCount"] {
            assert!(json[0].get(key).is_some(), "{key}");
        }
    }

    unsafe extern "C" fn prohibited(value: *mut c_int, attribute: c_int, _: c_int) -> c_int {
        // SAFETY: a valid pointer.
        unsafe {
            *value = match attribute {
                75 => 9,
                20 => 2,
                _ => 0,
            }
        };
        0
    }

    #[test]
    fn a_device_that_may_not_be_used_is_refused_with_its_mode() {
        let mut driver = driver();
        driver.api.attribute = prohibited;
        let error = driver.check_device(0).unwrap_err().to_string();
        assert_eq!(
            error,
            "device 0 (NVIDIA H200) has the compute mode Prohibited, allowed: Default or Exclusive_Process \
             (nvidia-smi --compute-mode sets it)"
        );
    }

    #[test]
    fn a_driver_older_than_the_libraries_is_refused_with_both_versions() {
        let error = driver().check_version().unwrap_err().to_string();
        assert!(error.contains("CUDA 12.8") && error.contains("13.0") && error.contains("580"), "{error}");
    }

    #[test]
    fn a_device_that_the_kernels_cannot_run_on_is_refused_with_its_compute_capability() {
        assert_eq!(driver().check_device(0), Ok(()));
        let mut old = driver();
        old.api.attribute = turing;
        let error = old.check_device(0).unwrap_err().to_string();
        assert_eq!(
            error,
            "device 0 (NVIDIA H200) has compute capability 7.5, allowed: 8.0 or later (A100, RTX 30 and newer)"
        );
    }

    #[test]
    fn a_number_that_no_device_has_is_refused_with_how_many_there_are() {
        let error = driver().check_device(3).unwrap_err().to_string();
        assert_eq!(error, "device 3 does not exist: the driver shows 1");
    }

    #[test]
    fn a_failed_call_is_named_with_the_text_of_the_driver() {
        let mut driver = driver();
        driver.api.attribute = broken;
        let error = driver.devices().unwrap_err().to_string();
        assert_eq!(error, "cuDeviceGetAttribute failed with error 214: uncorrectable ECC error encountered");
    }

    unsafe extern "C" fn hangs(_: *mut c_int) -> c_int {
        thread::sleep(Duration::from_secs(20));
        0
    }

    unsafe extern "C" fn hangs_at_an_attribute(_: *mut c_int, _: c_int, _: c_int) -> c_int {
        thread::sleep(Duration::from_secs(20));
        0
    }

    #[test]
    fn a_device_that_hangs_while_it_is_described_is_given_up_in_time() {
        let changes: [fn(&mut Api); 2] = [|api| api.device_count = hangs, |api| api.attribute = hangs_at_an_attribute];
        for change in changes {
            let answers = Box::leak(Box::new(Answers::within(Duration::from_millis(200))));
            let mut driver = Driver { answers, ..driver() };
            change(&mut driver.api);
            let began = Instant::now();
            let error = driver.check_device(0).unwrap_err();
            assert!(matches!(error, DriverError::Silent { call: "describing its devices", .. }), "{error}");
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        }
    }
}
