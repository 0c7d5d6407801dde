//! Moments in host memory compared with those on the device, with kernels on a CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::{Device, Tensor};
use evenkeel_model::ModelError;
use evenkeel_model::kernels::portable::{ParameterMoments, global_norm};
use evenkeel_model::kernels::{
    AdamW, Clip, HostMoments, HostValues, Moment, OptimizerKernels, UpdateArrays, UpdateNorm,
};

use crate::test_model::{TestModel, groups, state};
use crate::{Example, Learner, MomentsLocation, TrainingSettings};

/// The loops of a CPU as kernels, and how many updates took moments from host memory.
struct Loops(Arc<AtomicUsize>);

impl Loops {
    /// What a device decides before it changes a weight.
    fn decide(gradients: &[Tensor], clip: Clip) -> Result<(UpdateNorm, f64), ModelError> {
        let norm = global_norm(gradients)?;
        let scaled = clip.scale * norm;
        let found = UpdateNorm { norm, applied: scaled.is_finite(), change: 0.0 };
        Ok((found, clip.scale * (clip.limit / (scaled + 1e-6)).min(1.0)))
    }

    /// Returns the sum of squares of what was added to the weights.
    fn change(arrays: UpdateArrays<'_>, factor: f64, updates: &[AdamW]) -> Result<f64, ModelError> {
        let changed = updates.iter().enumerate().map(|(id, &numbers)| {
            let [mut weight, mut first, mut second] =
                [arrays.weights, arrays.first, arrays.second].map(|all| all[id].clone());
            let parameter =
                ParameterMoments { value: &mut weight, is_lent: false, first: &mut first, second: &mut second };
            parameter.update(&arrays.gradients[id], factor, numbers)
        });
        changed.sum()
    }
}

impl OptimizerKernels for Loops {
    fn norm(&self, gradients: &[Tensor]) -> Result<f64, ModelError> {
        global_norm(gradients)
    }

    fn update(&self, arrays: UpdateArrays<'_>, clip: Clip, updates: &[AdamW]) -> Result<UpdateNorm, ModelError> {
        let (mut found, factor) = Self::decide(arrays.gradients, clip)?;
        if found.applied {
            found.change = Self::change(arrays, factor, updates)?.sqrt();
        }
        Ok(found)
    }

    fn host_moments(&self, counts: &[usize]) -> Result<HostMoments, ModelError> {
        let zeros = || counts.iter().map(|&count| Box::new(vec![0.0f32; count]) as Box<dyn HostValues>).collect();
        Ok(HostMoments::new(zeros(), zeros()))
    }

    fn update_from_host(
        &self,
        weights: &[Tensor],
        gradients: &[Tensor],
        moments: &mut HostMoments,
        clip: Clip,
        updates: &[AdamW],
    ) -> Result<UpdateNorm, ModelError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let (mut found, factor) = Self::decide(gradients, clip)?;
        if !found.applied {
            return Ok(found);
        }
        let mut squares = 0.0;
        for (id, &number) in updates.iter().enumerate() {
            let tensor =
                |moment| Tensor::from_slice(moments.of(moment, id).values(), weights[id].shape(), &Device::Cpu);
            let [first, second] = [tensor(Moment::First)?, tensor(Moment::Second)?];
            let one = |tensor: &Tensor| [tensor.clone()];
            let arrays = UpdateArrays {
                weights: &one(&weights[id]),
                first: &one(&first),
                second: &one(&second),
                gradients: &one(&gradients[id]),
            };
            squares += Self::change(arrays, factor, &[number])?;
            for (moment, tensor) in [(Moment::First, first), (Moment::Second, second)] {
                let values: Vec<f32> = tensor.flatten_all()?.to_vec1()?;
                moments.of_mut(moment, id).values_mut().copy_from_slice(&values);
            }
        }
        found.change = squares.sqrt();
        Ok(found)
    }
}

/// A learner whose backward passes fail after some, and its counter of updates from the host.
fn learner(location: MomentsLocation, passes: usize) -> (Learner, Arc<AtomicUsize>) {
    let mut settings = TrainingSettings { mini_batch_groups: 1, ..TrainingSettings::default() };
    settings.optimizer.learning_rate = 1e-2;
    settings.optimizer.moments = location;
    let updates = Arc::new(AtomicUsize::new(0));
    let kernels = Some(Box::new(Loops(Arc::clone(&updates))) as Box<dyn OptimizerKernels + Send>);
    (TestModel { passes, kernels, ..TestModel::default() }.learner(settings), updates)
}

fn train(learner: &mut Learner, steps: usize) {
    (0..steps).for_each(|_| drop(learner.train(groups()).unwrap()));
}

#[test]
fn both_places_give_the_same_bits_through_a_change_of_phase() {
    let run = |location| {
        let (mut learner, updates) = learner(location, usize::MAX);
        train(&mut learner, 2);
        learner.supervised_step(&[Example { prompt: vec![2], response: vec![3, 4] }]).unwrap();
        train(&mut learner, 1);
        (state(&mut learner), updates.load(Ordering::Relaxed))
    };
    let (device, none) = run(MomentsLocation::Device);
    let (host, all) = run(MomentsLocation::Host);
    assert_eq!(device, host);
    // Three updates a step, and one of the supervised step.
    assert_eq!((none, all), (0, 10));
}

#[test]
fn a_checkpoint_of_one_place_is_resumed_in_the_other_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let places = [MomentsLocation::Device, MomentsLocation::Host];
    let (mut whole, _) = learner(MomentsLocation::Device, usize::MAX);
    train(&mut whole, 4);
    for (from, to) in places.into_iter().flat_map(|from| places.map(|to| (from, to))) {
        let path = folder.path().join(format!("{}-{}", from.name(), to.name()));
        let (mut first, _) = learner(from, usize::MAX);
        train(&mut first, 2);
        first.save_checkpoint(&path, b"").unwrap();
        let (mut second, _) = learner(to, usize::MAX);
        train(&mut second, 1);
        second.restore_checkpoint(&path).unwrap();
        assert_eq!(state(&mut second), state(&mut first));
        train(&mut second, 2);
        assert_eq!(state(&mut second), state(&mut whole), "{from:?} to {to:?}");
    }
    // The files do not say where the moments were.
    let moments = |name: &str| std::fs::read(folder.path().join(name).join("moments.safetensors")).unwrap();
    assert!(moments("device-host") == moments("host-device"));
}

#[test]
fn a_step_that_fails_after_an_update_leaves_moments_in_the_hosts_memory_as_they_were() {
    let (mut learner, updates) = learner(MomentsLocation::Host, 5);
    train(&mut learner, 1);
    let before = state(&mut learner);
    learner.train(groups()).unwrap_err();
    assert_eq!(updates.load(Ordering::Relaxed), 5, "two updates of the step that failed");
    assert_eq!(state(&mut learner), before);
}

#[test]
fn a_checkpoint_that_fails_while_it_is_read_leaves_a_learner_that_refuses_to_work_until_one_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let (mut learner, _) = learner(MomentsLocation::Host, usize::MAX);
    train(&mut learner, 1);
    let before = state(&mut learner);
    let path = folder.path().join("whole");
    learner.save_checkpoint(&path, b"").unwrap();
    learner.trainer_mut().restore(&Fails(&path), numbers()).unwrap_err();
    let refused = |result: crate::Result<()>| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("was only partially loaded: load a checkpoint"), "{error}");
    };
    refused(learner.train(groups()).map(drop));
    refused(learner.score(&[(&[2], &[3])], 1.0).map(drop));
    refused(learner.save_checkpoint(&folder.path().join("torn"), b""));
    refused(learner.publish(folder.path(), crate::PublishOptions::default()).map(drop));
    learner.restore_checkpoint(&path).unwrap();
    assert_eq!(state(&mut learner), before);
    train(&mut learner, 1);
}

/// A checkpoint whose disk fails at its second parameter.
struct Fails<'a>(&'a std::path::Path);

impl crate::trainer::StoredState for Fails<'_> {
    fn folder(&self) -> &std::path::Path {
        self.0
    }

    fn weights(&self, parameter: usize, device: &Device) -> crate::Result<Tensor> {
        match parameter {
            0 => Ok(Tensor::ones((11, 8), candle_core::DType::F32, device)?),
            _ => Err(crate::LearnerError::checkpoint(self.0, "the disk is lost")),
        }
    }

    fn moment(&self, _: Moment, _: usize, device: &Device) -> crate::Result<Tensor> {
        Ok(Tensor::ones((11, 8), candle_core::DType::F32, device)?)
    }
}

fn numbers() -> crate::trainer::StoredCounters {
    let optimizer = super::UpdateCounts { updates: 1, steps: 1, phase: super::TrainingPhase::Policy };
    crate::trainer::StoredCounters { optimizer, version: 7, seed: 0, terms: Default::default() }
}
