//! Where AdamW's moments are kept: on the device of the parameters, or in page-locked host memory.

use std::ops::Range;

use candle_core::{Device, Tensor};
use evenkeel_model::Parameters;
use evenkeel_model::folder::Values;
use evenkeel_model::kernels::{HostMoments, Moment, OptimizerKernels};

use crate::error::Result;
use crate::settings::MomentsLocation;

/// The two fp32 moments of consecutive parameters that are trained: of all, or of a rank's part of them.
pub(crate) struct Moments {
    /// Their numbers among those that are trained.
    own: Range<usize>,
    store: MomentStore,
}

/// The values of moments, from the first own parameter on.
pub(super) enum MomentStore {
    /// On the device of the parameters, which on a CPU is host memory as well.
    Device(PerMoment<Vec<Tensor>>),
    /// In page-locked host memory.
    Host(HostMoments),
}

/// Something for each of the two moments.
#[derive(Clone, Debug)]
pub(crate) struct PerMoment<T> {
    /// For the running means of gradients.
    pub(crate) first: T,
    /// For the running means of squared gradients.
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
    /// Zeros, of the parameters with these numbers among those that are trained. Without kernels the parameters are on
    /// a CPU, where both locations are the same.
    pub(crate) fn zeros(
        location: MomentsLocation,
        kernels: Option<&dyn OptimizerKernels>,
        parameters: &Parameters,
        own: Range<usize>,
    ) -> Result<Self> {
        let values = &parameters.trained_values()[own.clone()];
        let store = match (location, kernels) {
            (MomentsLocation::Host, Some(kernels)) => {
                let counts: Vec<usize> = values.iter().map(Tensor::elem_count).collect();
                MomentStore::Host(kernels.host_moments(&counts)?)
            }
            _ => MomentStore::Device(PerMoment { first: zeros(values)?, second: zeros(values)? }),
        };
        Ok(Self { own, store })
    }

    /// Resets all moments to zero. Earlier copies keep their values.
    pub(crate) fn reset(&mut self, parameters: &Parameters) -> Result<()> {
        let values = &parameters.trained_values()[self.own.clone()];
        match &mut self.store {
            MomentStore::Device(moments) => {
                *moments = PerMoment { first: zeros(values)?, second: zeros(values)? };
            }
            MomentStore::Host(moments) => moments.clear(),
        }
        Ok(())
    }

    /// The numbers of the parameters that these are the moments of.
    pub(crate) fn own(&self) -> Range<usize> {
        self.own.clone()
    }

    /// The values, for an update.
    pub(super) fn store_mut(&mut self) -> &mut MomentStore {
        &mut self.store
    }

    /// An own parameter's moment as a tensor.
    pub(crate) fn tensor(&self, moment: Moment, parameter: usize) -> Result<Tensor> {
        let parameter = parameter - self.own.start;
        match &self.store {
            MomentStore::Device(moments) => Ok(moments.of(moment)[parameter].clone()),
            MomentStore::Host(moments) => {
                let values = moments.of(moment, parameter).values();
                Ok(Tensor::from_slice(values, values.len(), &Device::Cpu)?)
            }
        }
    }

    /// A moment of an own parameter, for a file.
    pub(crate) fn values(&self, moment: Moment, parameter: usize) -> Values<'_> {
        let parameter = parameter - self.own.start;
        match &self.store {
            MomentStore::Device(moments) => Values::Tensor(&moments.of(moment)[parameter]),
            MomentStore::Host(moments) => Values::Host(moments.of(moment, parameter).values()),
        }
    }

    /// The device that [`Self::set`] takes tensors on, for parameters on `device`.
    pub(crate) fn device(&self, device: &Device) -> Device {
        match &self.store {
            MomentStore::Device(_) => device.clone(),
            MomentStore::Host(_) => Device::Cpu,
        }
    }

    /// Replaces a moment of a parameter, if it is an own one, by fp32 values of the same shape.
    pub(crate) fn set(&mut self, moment: Moment, parameter: usize, values: Tensor) -> Result<()> {
        if !self.own.contains(&parameter) {
            return Ok(());
        }
        let parameter = parameter - self.own.start;
        match &mut self.store {
            MomentStore::Device(moments) => moments.of_mut(moment)[parameter] = values,
            MomentStore::Host(moments) => {
                let values: Vec<f32> = values.flatten_all()?.to_vec1()?;
                moments.of_mut(moment, parameter).values_mut().copy_from_slice(&values);
            }
        }
        Ok(())
    }

    /// What to go back to; with `copy` in memory of its own, which later in-place updates do not change. Moments in
    /// host memory are always copied, into memory that is kept for the next snapshot, so that only the last one counts.
    pub(crate) fn snapshot(&mut self, copy: bool) -> Result<MomentsSnapshot> {
        let snapshot = |tensors: &[Tensor]| {
            let tensors = tensors.iter().map(|tensor| if copy { tensor.copy() } else { Ok(tensor.clone()) });
            tensors.collect::<Result<Vec<Tensor>, candle_core::Error>>()
        };
        match &mut self.store {
            MomentStore::Device(PerMoment { first, second }) => {
                Ok(MomentsSnapshot::Tensors(PerMoment { first: snapshot(first)?, second: snapshot(second)? }))
            }
            MomentStore::Host(moments) => {
                moments.save();
                Ok(MomentsSnapshot::Saved)
            }
        }
    }

    /// Goes back to the last snapshot.
    pub(crate) fn restore(&mut self, snapshot: MomentsSnapshot) {
        match (&mut self.store, snapshot) {
            (MomentStore::Device(moments), MomentsSnapshot::Tensors(tensors)) => *moments = tensors,
            (MomentStore::Host(moments), MomentsSnapshot::Saved) => moments.go_back(),
            // A snapshot is restored into the moments that it was taken of.
            (MomentStore::Device(_), MomentsSnapshot::Saved) | (MomentStore::Host(_), MomentsSnapshot::Tensors(_)) => {}
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

fn zeros(values: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(values.iter().map(Tensor::zeros_like).collect::<Result<_, _>>()?)
}
