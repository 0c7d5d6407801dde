//! The least role of every method.

use crate::server::role::Role;

/// Health checks are open to everybody: probes carry no credentials.
pub(super) const OPEN: &str = "grpc.health.v1.Health/";

/// The least role by method.
const METHODS: [(&str, Role); 32] = [
    ("evenkeel.v1.Environment/Run", Role::Admin),
    ("evenkeel.v1.Environment/GetStatus", Role::Reader),
    ("evenkeel.v1.Generation/Generate", Role::Orchestrator),
    ("evenkeel.v1.Generation/UpdateWeights", Role::Orchestrator),
    ("evenkeel.v1.Generation/Sleep", Role::Orchestrator),
    ("evenkeel.v1.Generation/WakeUp", Role::Orchestrator),
    ("evenkeel.v1.Generation/ProveWeights", Role::Orchestrator),
    ("evenkeel.v1.Generation/GetStatus", Role::Reader),
    ("evenkeel.v1.Learner/Train", Role::Orchestrator),
    ("evenkeel.v1.Learner/Score", Role::Orchestrator),
    ("evenkeel.v1.Learner/Publish", Role::Orchestrator),
    ("evenkeel.v1.Learner/SaveCheckpoint", Role::Orchestrator),
    ("evenkeel.v1.Learner/LoadCheckpoint", Role::Orchestrator),
    ("evenkeel.v1.Learner/Reset", Role::Orchestrator),
    ("evenkeel.v1.Learner/Operate", Role::Orchestrator),
    ("evenkeel.v1.Learner/GetStatus", Role::Reader),
    ("evenkeel.v1.Orchestrator/StartRun", Role::Admin),
    ("evenkeel.v1.Orchestrator/StopRun", Role::Admin),
    ("evenkeel.v1.Orchestrator/GetRun", Role::Reader),
    ("evenkeel.v1.Orchestrator/WatchRun", Role::Reader),
    ("evenkeel.v1.Orchestrator/ListRuns", Role::Reader),
    ("evenkeel.v1.Orchestrator/GetStatus", Role::Reader),
    ("evenkeel.v1.Ranks/Join", Role::Rank),
    ("evenkeel.v1.Reward/Verify", Role::Admin),
    ("evenkeel.v1.Reward/VerifyOne", Role::Admin),
    ("evenkeel.v1.Reward/GetStatus", Role::Reader),
    ("evenkeel.v1.Weights/Describe", Role::Agent),
    ("evenkeel.v1.Weights/Read", Role::Agent),
    ("evenkeel.v1.WeightsAgent/Pull", Role::Agent),
    ("evenkeel.v1.WeightsAgent/GetStatus", Role::Reader),
    ("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Role::Service),
    ("grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Role::Service),
];

/// The least role of a method, given without the leading slash. A method that is not listed takes the highest.
pub(super) fn least_role(method: &str) -> Role {
    METHODS.iter().find(|(name, _)| *name == method).map_or(Role::Orchestrator, |(_, role)| *role)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message as _;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn every_method_of_the_protocol_has_exactly_one_role_and_no_other_is_listed() {
        let ours = FileDescriptorSet::decode(evenkeel_proto::FILE_DESCRIPTOR_SET).unwrap();
        let mut methods = BTreeSet::new();
        for file in &ours.file {
            for service in &file.service {
                let name = |method: &str| format!("{}.{}/{method}", file.package(), service.name());
                methods.extend(service.method.iter().map(|method| name(method.name())));
            }
        }
        for version in ["v1", "v1alpha"] {
            methods.insert(format!("grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"));
        }
        let listed: BTreeSet<String> = METHODS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(listed, methods);
        assert_eq!(listed.len(), METHODS.len(), "a method is listed twice");
    }

    #[test]
    fn what_is_not_listed_takes_the_highest_role() {
        assert_eq!(least_role("evenkeel.v1.Learner/Forget"), Role::Orchestrator);
    }
}
