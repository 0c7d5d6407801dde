//! What an engine may still have instead of the published weights.

use std::fmt;

use evenkeel_errors::engine_advice::TIED_HEAD;

use crate::scorer::{PublishedWeights, ReplacedGroup, TensorGroup};

/// A suspicion: weights that an engine may have under the label of a version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Suspicion {
    /// All tensors are those of the version that the process began with, at least in part.
    Unchanged,
    /// All tensors are those of the version before.
    Behind,
    /// The engine has no adapters: it answers as their base.
    Base,
    /// The engine adds too much of the adapters: their effect once more.
    Excess,
    /// One group of tensors is that of the version that the process began with.
    Group(String),
}

/// The versions that suspicions are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProofVersions {
    /// Published last, and what engines should have.
    pub(crate) current: u64,
    /// The one that this process began with.
    pub(crate) anchor: u64,
    /// The one before the current one.
    before: u64,
}

impl ProofVersions {
    /// Every step makes one version.
    pub(crate) fn new(current: u64, anchor: u64) -> Self {
        Self { current, anchor, before: current.saturating_sub(1) }
    }
}

impl Suspicion {
    /// All suspicions about a model whose learner trains these groups.
    pub(crate) fn all(groups: &[TensorGroup]) -> Vec<Self> {
        let of_group = |group: &TensorGroup| match group {
            TensorGroup::Adapters => vec![Self::Base, Self::Excess],
            TensorGroup::Named(name) => vec![Self::Group(name.clone())],
        };
        [Self::Unchanged, Self::Behind].into_iter().chain(groups.iter().flat_map(of_group)).collect()
    }

    /// The suspicion, looked at before, whose prediction this one's is with the other sign.
    pub(crate) fn mirrored(&self) -> Option<Self> {
        matches!(self, Self::Excess).then_some(Self::Base)
    }

    /// The weights that it supposes. `None` where they are the right ones, what another suspicion supposes, or none
    /// that anybody has.
    pub(crate) fn weights(&self, versions: ProofVersions) -> Option<PublishedWeights> {
        let ProofVersions { current, anchor, before } = versions;
        let replaced = |group, version| {
            let replaced = Some(ReplacedGroup { group, version });
            Some(PublishedWeights { replaced, ..PublishedWeights::of(current) })
        };
        match self {
            // Whatever the version: also the first one of a process may have adapters that have learned.
            Self::Base => replaced(TensorGroup::Adapters, current),
            Self::Excess => None,
            _ if current == anchor => None,
            Self::Unchanged => Some(PublishedWeights::of(anchor)),
            Self::Behind => (before != anchor).then(|| PublishedWeights::of(before)),
            Self::Group(group) => replaced(TensorGroup::Named(group.clone()), anchor),
        }
    }

    /// The name in metrics.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Unchanged => "unchanged".to_owned(),
            Self::Behind => "behind".to_owned(),
            Self::Base => "base".to_owned(),
            Self::Excess => "excess".to_owned(),
            Self::Group(group) => group.replace(' ', "_"),
        }
    }

    /// What an engine does of which it is true. `share`: how much of the predicted gap there is.
    pub(crate) fn explain(&self, share: f64, anchor: u64) -> String {
        let percent = 100.0 * share;
        match self {
            Self::Unchanged if share > 0.9 => format!(
                "it still has the weights of version {anchor}, whatever version it reports: check whether it reads the \
                 folder of each new version, whether an adapter never arrived, and whether a cache answers for it"
            ),
            Self::Unchanged => format!("it lacks {percent:.0} % of every change since version {anchor}"),
            Self::Behind => "it is one version behind: check whether its update ends before it answers".to_owned(),
            Self::Base => format!(
                "it answers as the base model, without {percent:.0} % of the adapter, whatever version it reports: \
                 check whether it reads the folder of each version, whether the names of its tensors are those of its \
                 layers, and whether an adapter was evicted"
            ),
            Self::Excess => format!(
                "it adds {percent:.0} % too much of the adapter, whatever version it reports: check whether it scales \
                 by alpha / rank as the folder says them, and adds an adapter once"
            ),
            Self::Group(group) => {
                let hint = match group.as_str() {
                    "head" | "embeddings" => format!("; {TIED_HEAD}"),
                    _ => String::new(),
                };
                format!("its {group} are still those of version {anchor} ({percent:.0} % of what that predicts){hint}")
            }
        }
    }
}

impl fmt::Display for Suspicion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.write_str("nothing loaded"),
            Self::Behind => f.write_str("one version behind"),
            Self::Base => f.write_str("no adapter"),
            Self::Excess => f.write_str("too much of the adapter"),
            Self::Group(group) => write!(f, "old {group}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> Vec<TensorGroup> {
        ["embeddings", "norms", "mlp"].map(|name| TensorGroup::Named(name.to_owned())).to_vec()
    }

    #[test]
    fn adapters_are_suspected_to_be_missing_of_every_version() {
        let all = Suspicion::all(&[TensorGroup::Named("mlp".to_owned()), TensorGroup::Adapters]);
        assert_eq!(
            all.iter().map(Suspicion::name).collect::<Vec<_>>(),
            ["unchanged", "behind", "mlp", "base", "excess"]
        );
        // Also of the version that a resumed process begins with.
        for versions in [ProofVersions::new(4, 4), ProofVersions::new(6, 4)] {
            let weights = all[3].weights(versions).unwrap();
            assert_eq!((weights.version, weights.replaced.unwrap().group), (versions.current, TensorGroup::Adapters));
        }
        assert_eq!(Suspicion::Excess.weights(ProofVersions::new(6, 4)), None);
    }

    #[test]
    fn a_suspicion_supposes_other_weights_than_the_right_ones() {
        let versions = ProofVersions::new;
        let all = Suspicion::all(&groups());
        assert!(all.iter().all(|suspicion| suspicion.weights(versions(4, 4)).is_none()));
        // One version behind is the version of the beginning, once.
        assert!(Suspicion::Behind.weights(versions(5, 4)).is_none());
        assert_eq!(Suspicion::Behind.weights(versions(6, 4)).unwrap().version, 5);
        assert_eq!(Suspicion::Unchanged.weights(versions(6, 4)).unwrap().version, 4);
        let group = all[2].weights(versions(6, 4)).unwrap();
        let replaced = group.replaced.unwrap();
        assert_eq!((group.version, &replaced.group, replaced.version), (6, &groups()[0], 4));
    }
}
