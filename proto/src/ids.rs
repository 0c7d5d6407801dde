//! Ids of groups and samples, and the seed that follows from an id. Nothing else may decide a sample's seed: that is
//! what makes a run the same twice, in one process or five, resumed or not.

use std::fmt;
use std::str::FromStr;

use evenkeel_errors::FieldError;
use evenkeel_seeds::Stream;

/// What a group is sampled for. Training and evaluation never share an id or a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// For a GRPO step.
    Train,
    /// For an evaluation.
    Eval,
}

impl Purpose {
    fn as_str(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Eval => "eval",
        }
    }
}

/// The samples of one prompt in one step. Written `train/12/345`: step 12, the prompt at place 345 of the data order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId {
    /// What it is for.
    pub purpose: Purpose,
    /// The GRPO step, from 1; for an evaluation the GRPO steps done before it.
    pub step: u64,
    /// Place of the prompt in the data order, from 0.
    pub prompt: u64,
}

impl GroupId {
    /// The id of one of its samples.
    pub fn sample(self, sample: u32) -> SampleId {
        SampleId { group: self, sample }
    }
}

/// One sample of a group. Written `train/12/345/7`: the eighth sample of group `train/12/345`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleId {
    /// Group that the sample belongs to.
    pub group: GroupId,
    /// Index in the group, from 0.
    pub sample: u32,
}

impl SampleId {
    /// The seed of the sample in the run of that seed, below 2^63 since engines take signed integers. Part of the
    /// protocol (`evenkeel_seeds` says how it is derived, from numbers that count from 0): other seeds for the same id
    /// would be another run.
    pub fn seed(self, run_seed: u64) -> u64 {
        let GroupId { purpose, step, prompt } = self.group;
        let sample = u64::from(self.sample);
        let stream = match purpose {
            Purpose::Train => Stream::TrainingSample { step: step.saturating_sub(1), prompt, sample },
            Purpose::Eval => Stream::EvaluationSample { step, prompt, sample },
        };
        evenkeel_seeds::seed(run_seed, stream)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.purpose.as_str(), self.step, self.prompt)
    }
}

impl fmt::Display for SampleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.sample)
    }
}

impl FromStr for GroupId {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let error =
            || FieldError::new("id", format_args!("`{text}`"), "train/STEP/PROMPT (steps from 1) or eval/STEP/PROMPT");
        let mut parts = text.split('/');
        let purpose = match parts.next() {
            Some("train") => Purpose::Train,
            Some("eval") => Purpose::Eval,
            _ => return Err(error()),
        };
        let step = parts.next().and_then(decimal).ok_or_else(error)?;
        let prompt = parts.next().and_then(decimal).ok_or_else(error)?;
        if parts.next().is_some() || (purpose, step) == (Purpose::Train, 0) {
            return Err(error());
        }
        Ok(Self { purpose, step, prompt })
    }
}

impl FromStr for SampleId {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let allowed = "train/STEP/PROMPT/SAMPLE (steps from 1) or eval/STEP/PROMPT/SAMPLE";
        let error = || FieldError::new("id", format_args!("`{text}`"), allowed);
        let (group, sample) = text.rsplit_once('/').ok_or_else(error)?;
        let group = group.parse().map_err(|_| error())?;
        let sample = decimal(sample).and_then(|sample| sample.try_into().ok()).ok_or_else(error)?;
        Ok(Self { group, sample })
    }
}

/// A number as `Display` writes it: one id has one spelling, so that ids compare as texts.
fn decimal(text: &str) -> Option<u64> {
    let canonical = text == "0" || (!text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()));
    canonical.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const GROUP: GroupId = GroupId { purpose: Purpose::Train, step: 13, prompt: 345 };

    #[test]
    fn ids_survive_being_written() {
        assert_eq!(GROUP.to_string(), "train/13/345");
        assert_eq!("train/13/345".parse(), Ok(GROUP));
        assert_eq!("train/13/345/7".parse(), Ok(GROUP.sample(7)));
        let last = GroupId { purpose: Purpose::Eval, step: u64::MAX, prompt: u64::MAX }.sample(u32::MAX);
        assert_eq!(last.to_string().parse(), Ok(last));
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in [
            "",
            "train",
            "train/1/2",
            "train/0/2/3",
            "test/1/2/3",
            "train/1/2/3/4",
            "train/01/2/3",
            "train/+1/2/3",
            "train/1/2/4294967296",
        ] {
            let error = text.parse::<SampleId>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("id is `{text}`, allowed: train/STEP/PROMPT/SAMPLE (steps from 1) or eval/STEP/PROMPT/SAMPLE")
            );
        }
    }

    #[test]
    fn seeds_never_change() {
        let seeds = [GROUP.sample(0).seed(0), GROUP.sample(7).seed(0), GROUP.sample(7).seed(42)];
        assert_eq!(seeds, [9_092_694_362_705_792_517, 7_931_834_046_175_573_360, 355_503_575_661_280_197]);
    }

    #[test]
    fn every_part_of_an_id_changes_the_seed() {
        let mut seeds = HashSet::new();
        for purpose in [Purpose::Train, Purpose::Eval] {
            for step in 1..11 {
                for prompt in 0..10 {
                    for sample in 0..10 {
                        for run_seed in 0..10 {
                            seeds.insert(GroupId { purpose, step, prompt }.sample(sample).seed(run_seed));
                        }
                    }
                }
            }
        }
        assert_eq!(seeds.len(), 20_000);
        assert!(seeds.iter().all(|&seed| i64::try_from(seed).is_ok()));
    }
}
