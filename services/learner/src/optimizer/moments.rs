//! Where AdamW's moments are kept: on the device of the parameters, or in page-locked host memory.

use candle_core::{Device, Tensor};
use evenkeel_model::Parameters;
use evenkeel_model::folder::Values;
use evenkeel_model::kernels::{HostMoments, Moment, OptimizerKernels};

use crate::error::Result;
use crate::settings::MomentsLocation;

/// Both fp32 moments of every parameter that is trained.
pub(crate) enum Moments {
    /// On the device of the parameters, which on a CPU is host memory as well.
    Device(PerMoment<Vec<Tensor>>),
    /// In page-locked host memory.
    Host(HostMoments),
}

/// Something for each of the two moments.
#[derive(Clone, Debug)]
pub(crate) struct PerMoment<T> {
    /// Of the running means of gradients.
    pub(crate) first: T,
    /// Of the running means of their squares.
    pub(crate) second: T,
}

impl<T> PerMoment<T> {
    pub(crate) fn of_mut(&mut self, moment: Moment) -> &mut T {
        match moment {
            Moment::First => &mut self.first,
            Moment::Second => &mut self.second,
        }
    }

    pub(crate) fn of(&self, moment: Moment) -> &T {
        match moment {
            Moment::First => &self.first,
            Moment::Second => &self.second,
        }
    }
}

impl Moments {
    /// Zeros. Without kernels the parameters are on a CPU, where both locations are the same.
    pub(crate) fn zeros(
        location: MomentsLocation,
        kernels: Option<&dyn OptimizerKernels>,
        parameters: &Parameters,
    ) -> Result<Self> {
        match (location, kernels) {
            (MomentsLocation::Host, Some(kernels)) => {
                let counts: Vec<usize> = parameters.trained_values().iter().map(Tensor::elem_count).collect();
                Ok(Self::Host(kernels.host_moments(&counts)?))
            }
            _ => Ok(Self::Device(PerMoment { first: zeros(parameters)?, second: zeros(parameters)? })),
        }
    }

    /// Resets all moments to zero. Earlier copies keep their values.
    pub(crate) fn reset(&mut self, parameters: &Parameters) -> Result<()> {
        match self {
            Self::Device(moments) => {
                *moments = PerMoment { first: zeros(parameters)?, second: zeros(parameters)? };
            }
            Self::Host(moments) => moments.clear(),
        }
        Ok(())
    }

    /// A moment of a parameter, for a file.
    pub(crate) fn values(&self, moment: Moment, parameter: usize) -> Values<'_> {
        match self {
            Self::Device(moments) => Values::Tensor(&moments.of(moment)[parameter]),
            Self::Host(moments) => Values::Host(moments.of(moment, parameter).values()),
        }
    }

    /// The device that [`Self::set`] takes tensors on, for parameters on `device`.
    pub(crate) fn device(&self, device: &Device) -> Device {
        match self {
            Self::Device(_) => device.clone(),
            Self::Host(_) => Device::Cpu,
        }
    }

    /// Replaces a moment of a parameter by fp32 values of the same shape.
    pub(crate) fn set(&mut self, moment: Moment, parameter: usize, values: Tensor) -> Result<()> {
        match self {
            Self::Device(moments) => moments.of_mut(moment)[parameter] = values,
            Self::Host(moments) => {
                let values: Vec<f32> = values.flatten_all()?.to_vec1()?;
                moments.of_mut(moment, parameter).values_mut().copy_from_slice(&values);
            }
        }
        Ok(())
    }

    /// What to go back to; with `copy` in memory of its own, which later in-place updates do not change. Moments in host memory are always copied,
    /// into memory that is kept for the next snapshot, so that only the last one counts.
    pub(crate) fn snapshot(&mut self, copy: bool) -> Result<MomentsSnapshot> {
        let all = |tensors: &[Tensor]| {
            let tensors = tensors.iter().map(|tensor| if copy { tensor.copy() } else { Ok(tensor.clone()) });
            tensors.collect::<Result<Vec<Tensor>, candle_core::Error>>()
        };
        match self {
            Self::Device(PerMoment { first, second }) => {
                Ok(MomentsSnapshot::Tensors(PerMoment { first: all(first)?, second: all(second)? }))
            }
            Self::Host(moments) => {
                moments.save();
                Ok(MomentsSnapshot::Saved)
            }
        }
    }

    /// Goes back to the last snapshot.
    pub(crate) fn restore(&mut self, snapshot: MomentsSnapshot) {
        match (self, snapshot) {
            (Self::Device(moments), MomentsSnapshot::Tensors(tensors)) => *moments = tensors,
            (Self::Host(moments), MomentsSnapshot::Saved) => moments.go_back(),
            // A snapshot is restored into the moments that it was taken of.
            (Self::Device(_), MomentsSnapshot::Saved) | (Self::Host(_), MomentsSnapshot::Tensors(_)) => {}
        }
    }
}

/// The moments before a step.
pub(crate) enum MomentsSnapshot {
    /// Moments on the device.
    Tensors(PerMoment<Vec<Tensor>>),
    /// Beside those in host memory.
    Saved,
}

fn zeros(parameters: &Parameters) -> Result<Vec<Tensor>> {
    Ok(parameters.trained_values().iter().map(Tensor::zeros_like).collect::<Result<_, _>>()?)
}
