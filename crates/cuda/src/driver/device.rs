//! The properties of a device.

use serde::{Deserialize, Serialize};

use super::error::DriverError;

/// A device, described under the names of cuDNN's device properties, so that the file can stand in for the device where
/// there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    pub cuda_device_id: i32,
    pub device_name: String,
    /// 100 * major + 10 * minor of its compute capability.
    pub device_ver: i32,
    /// The CUDA version that the driver supports.
    pub driver_ver: i32,
    pub total_global_mem: usize,
    pub multi_processor_count: i32,
    #[serde(rename = "smClockRateKHz")]
    pub sm_clock_rate_khz: i32,
    #[serde(rename = "memClockRateKHz")]
    pub mem_clock_rate_khz: i32,
    pub l2_cache_size: i32,
    /// Threads of a warp.
    pub warp_size: i32,
    /// Largest grid in each dimension.
    pub max_grid_size: [i32; 3],
    /// Largest block in each dimension.
    pub max_block_size: [i32; 3],
    /// 32-bit registers of a block.
    pub regs_per_block: i32,
    /// 32-bit registers of a multiprocessor.
    #[serde(rename = "maxRegistersPerSM")]
    pub max_registers_per_sm: i32,
    /// Bytes of shared memory of a block.
    pub max_shared_memory_per_block: i32,
    /// Bytes of shared memory of a block that asks for more.
    pub max_shared_memory_per_block_optin: i32,
    /// Bytes of shared memory of each block that the driver uses itself.
    pub reserved_shared_memory_per_block: i32,
    /// Blocks on a multiprocessor.
    #[serde(rename = "maxCtasPerSM")]
    pub max_ctas_per_sm: i32,
    /// Threads of a block.
    pub max_threads_per_block: i32,
    /// Threads on a multiprocessor.
    #[serde(rename = "maxThreadsPerSM")]
    pub max_threads_per_sm: i32,
    /// Number of the device on the PCI bus.
    pub pci_device_id: i32,
    /// 1 with the TCC driver of Windows.
    pub is_tcc_driver: i32,
    /// 1 if all blocks of a launch can be resident together.
    pub support_coop_launch: i32,
    /// 1 if memory errors are corrected. (Not one of cuDNN's properties.)
    #[serde(default)]
    pub ecc_enabled: i32,
    /// Who may use it: 0 any process, 2 none, 3 one at a time. (Not one of cuDNN's properties.)
    #[serde(default)]
    pub compute_mode: i32,
}

impl Device {
    /// The first compute capability with bf16 products, the A100's, as [`device_ver`](Self::device_ver) has it.
    const CAPABILITY: i32 = 800;

    const PROHIBITED: i32 = 2;

    /// Whether the kernels can run on it.
    ///
    /// # Errors
    /// [`DriverError::Capability`] or [`DriverError::Prohibited`].
    pub fn check(&self) -> Result<(), DriverError> {
        let Self { cuda_device_id: number, device_ver: capability, .. } = *self;
        if capability < Self::CAPABILITY {
            return Err(DriverError::Capability { number, name: self.device_name.clone(), capability });
        }
        match self.compute_mode {
            Self::PROHIBITED => Err(DriverError::Prohibited { number, name: self.device_name.clone() }),
            _ => Ok(()),
        }
    }
}
