//! Where AdamW's moments are kept: on the device of the parameters, or in page-locked host memory.

use candle_core::{Device, Tensor};
use evenkeel_model::Parameters;
use evenkeel_model::folder::Values;
use evenkeel_model::kernels::{HostMoments, Moment, OptimizerKernels};

use crate::error::Result;
use crate::settings::MomentsLocation;

/// Both fp32 moments of every parameter.
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
                let counts: Vec<usize> = parameters.values().iter().map(Tensor::elem_count).collect();
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

    /// The moments as tensors; with `copy` in memory of their own, which later in-place updates do not change.
    pub(crate) fn tensors(&self, copy: bool, parameters: &Parameters) -> Result<PerMoment<Vec<Tensor>>> {
        let all = |moment| {
            let tensors = parameters.values().iter().enumerate().map(|(id, parameter)| match self.values(moment, id) {
                Values::Tensor(tensor) if copy => tensor.copy(),
                Values::Tensor(tensor) => Ok(tensor.clone()),
                Values::Host(values) => Tensor::from_slice(values, parameter.shape(), &Device::Cpu),
            });
            tensors.collect::<Result<Vec<Tensor>, candle_core::Error>>()
        };
        Ok(PerMoment { first: all(Moment::First)?, second: all(Moment::Second)? })
    }

    /// Goes back to what [`Self::tensors`] returned.
    pub(crate) fn restore(&mut self, tensors: PerMoment<Vec<Tensor>>) -> Result<()> {
        match self {
            Self::Device(moments) => *moments = tensors,
            Self::Host(_) => {
                for (moment, tensors) in [(Moment::First, tensors.first), (Moment::Second, tensors.second)] {
                    for (id, values) in tensors.into_iter().enumerate() {
                        self.set(moment, id, values)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn zeros(parameters: &Parameters) -> Result<Vec<Tensor>> {
    Ok(parameters.values().iter().map(Tensor::zeros_like).collect::<Result<_, _>>()?)
}
