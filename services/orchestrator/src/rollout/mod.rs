//! From prompts to judged groups: samples out, verdicts in, groups in data order.

mod check;
mod group;
mod items;
mod pump;
mod select;
mod stall;
mod verify;

pub(crate) use group::{Judgement, Plan, Sample, SampledGroup, Shaping};
pub(crate) use items::PumpSettings;
pub(crate) use pump::Pump;
pub(crate) use select::{Selection, StepBatch, plan};
