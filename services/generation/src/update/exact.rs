//! The exact proof of weights: digests of the tensors that an engine computes with, compared with those of the folder
//! that it was given, rounded to its type. Engines have them with the worker extension of this service.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use evenkeel_model_folder::{
    ConfigFile, EMBEDDING, FloatType, Folder, FolderError, HEAD, HeadForm, StoredTensor, TensorPart, WeightFiles,
    tensor_digest,
};
use evenkeel_proto::v1::{ExactProof, ExactProofState};
use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::error::micros;
use tokio::time::Instant;

use crate::engine::WorkerTensors;
use crate::pool::{EnginePool, PooledEngine};

/// Names and reasons that are listed, at most.
const LISTED: usize = 16;
/// Threads that read the published folder, at most.
const READERS: usize = 8;

/// Compares the tensors of an engine with those of its weights. `None` for an engine without digests, or one that is
/// lost meanwhile.
pub(super) async fn prove(pool: &EnginePool, engine: &PooledEngine, deadline: Deadline) -> Option<ExactProof> {
    let info = engine.info().filter(|info| info.has_digests)?;
    if !pool.state(engine).0.is_serving() {
        return None;
    }
    let started = Instant::now();
    // An engine that restarts meanwhile answers for the weights that it starts with.
    let session = pool.session(engine);
    if engine.adapter_name(session.weights()).is_some() {
        // Its tensors are those of the model. What is computed beside them the scores show.
        return None;
    }
    let asked = deadline.run(async {
        // While it reads its tensors it answers no health check.
        let _control = engine.control().lock().await;
        let workers = engine.client().tensors().await?;
        pool.verify_weights(engine, &session).await.map(|()| workers)
    });
    let failed = |error: String| {
        tracing::warn!(engine = engine.name(), error, "no digests of its tensors");
        None
    };
    let workers = match asked.await {
        Ok(Ok(workers)) => workers,
        Ok(Err(error)) => return failed(error.to_string()),
        Err(error) => return failed(error.to_string()),
    };
    // The first weights are those of the folder that it was started with.
    let folder = PathBuf::from(pool.weights().path.clone().unwrap_or_else(|| info.root.clone()));
    let comparing = tokio::task::spawn_blocking(move || compare(&folder, &workers));
    let compared = match deadline.run(comparing).await {
        Ok(Ok(compared)) => compared,
        Ok(Err(error)) => return failed(error.to_string()),
        Err(error) => return failed(error.to_string()),
    };
    Some(ExactProof { took_us: micros(started.elapsed()), ..compared })
}

/// Where a part of a tensor begins, and its shape.
type Place<'a> = (&'a [u64], &'a [u64]);

/// A part of a tensor in the engine's type, and the digests that workers gave for it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim<'a> {
    name: &'a str,
    start: &'a [u64],
    shape: &'a [u64],
    dtype: &'a str,
}

/// What a claim turned out to be.
enum ClaimOutcome {
    Equal,
    Different,
    Unread(String),
}

/// Compares what workers say with a folder.
fn compare(folder: &Path, workers: &[WorkerTensors]) -> ExactProof {
    let dtype = workers.first().map(|worker| worker.dtype.clone()).unwrap_or_default();
    match Published::read(&Folder::new(folder)) {
        Ok(published) => ExactProof { dtype, ..published.compare(workers) },
        Err(error) => ExactProof {
            state: ExactProofState::Incomplete.into(),
            unread: 1,
            unread_reasons: vec![format!("the weights cannot be read here: {error}")],
            dtype,
            ..ExactProof::default()
        },
    }
}

/// The tensors of a folder.
struct Published {
    tensors: BTreeMap<String, StoredTensor>,
    /// The embedding of a tied model, for an engine that names its head.
    tied_head: Option<StoredTensor>,
}

impl Published {
    fn read(folder: &Folder) -> Result<Self, FolderError> {
        let form = HeadForm::of(ConfigFile::read(folder)?.json());
        let mut tensors = WeightFiles::read(folder)?.tensors()?;
        // Computed, not loaded.
        tensors.retain(|name, _| !name.ends_with("rotary_emb.inv_freq"));
        let tied_head = tensors.get(EMBEDDING).filter(|_| form == HeadForm::Tied).cloned();
        Ok(Self { tensors, tied_head })
    }

    fn find(&self, name: &str) -> Option<&StoredTensor> {
        self.tensors.get(name).or_else(|| self.tied_head.as_ref().filter(|_| name == HEAD))
    }

    fn compare(&self, workers: &[WorkerTensors]) -> ExactProof {
        // Workers may have the same part: norms everywhere, keys and values where there are few heads of them.
        let mut claims: BTreeMap<Claim<'_>, BTreeSet<&str>> = BTreeMap::new();
        for tensor in workers.iter().flat_map(|worker| &worker.tensors) {
            let claim = Claim { name: &tensor.name, start: &tensor.start, shape: &tensor.shape, dtype: &tensor.dtype };
            claims.entry(claim).or_default().insert(&tensor.sha256);
        }
        let claims: Vec<_> = claims.into_iter().collect();
        let outcomes = on_threads(claims.len(), |at| self.judge(&claims[at].0, &claims[at].1));
        let mut reasons: Vec<String> = Vec::new();
        let mut different = BTreeSet::new();
        let mut strange = BTreeSet::new();
        let mut covered: BTreeMap<&str, BTreeMap<Place<'_>, u64>> = BTreeMap::new();
        for ((claim, _), outcome) in claims.iter().zip(outcomes) {
            let values = claim.shape.iter().try_fold(1u64, |all, &size| all.checked_mul(size)).unwrap_or(0);
            match outcome {
                ClaimOutcome::Unread(reason) => {
                    if self.find(claim.name).is_none() {
                        strange.insert(claim.name);
                    }
                    reasons.push(format!("{}: {reason}", claim.name));
                    continue;
                }
                ClaimOutcome::Different => {
                    different.insert(claim.name);
                }
                ClaimOutcome::Equal => {}
            }
            covered.entry(claim.name).or_default().insert((claim.start, claim.shape), values);
        }
        reasons
            .extend(workers.iter().flat_map(|worker| &worker.unread).map(|one| format!("{}: {}", one.name, one.why)));
        let uncovered = self.tensors.iter().filter(|(name, tensor)| {
            let found = covered.get(name.as_str()).map_or(0, |parts| parts.values().sum());
            TensorPart::whole(tensor).values().is_none_or(|values| found < values)
        });
        let uncovered: Vec<&String> = uncovered.map(|(name, _)| name).collect();
        if reasons.is_empty() {
            reasons.extend(uncovered.iter().map(|name| format!("{name}: no worker has all of it")));
        }
        reasons.sort();
        reasons.dedup();
        reasons.truncate(LISTED);
        let unread = uncovered.len() + strange.len();
        let state = match (different.is_empty(), unread == 0) {
            (false, _) => ExactProofState::Different,
            (true, true) => ExactProofState::Equal,
            (true, false) => ExactProofState::Incomplete,
        };
        ExactProof {
            state: state.into(),
            tensors: count(self.tensors.len()),
            different: count(different.len()),
            different_names: different.into_iter().take(LISTED).map(str::to_owned).collect(),
            unread: count(unread),
            unread_reasons: reasons,
            ..ExactProof::default()
        }
    }

    fn judge(&self, claim: &Claim<'_>, digests: &BTreeSet<&str>) -> ClaimOutcome {
        let Some(tensor) = self.find(claim.name) else {
            return ClaimOutcome::Unread("the published folder has no tensor of this name".to_owned());
        };
        let Some(float) = FloatType::named(claim.dtype) else {
            return ClaimOutcome::Unread(format!("its type is {}", claim.dtype));
        };
        let part = TensorPart { start: claim.start.to_vec(), shape: claim.shape.to_vec() };
        match tensor_digest(tensor, &part, float) {
            Ok(expected) if digests.iter().all(|digest| *digest == expected) => ClaimOutcome::Equal,
            Ok(_) => ClaimOutcome::Different,
            Err(error) => ClaimOutcome::Unread(error.to_string()),
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Runs `work` for each number below `count` on several threads; the results are in order.
fn on_threads<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(READERS).min(count);
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        break;
                    }
                    let result = work(at);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use evenkeel_model_folder::with_head_written_out;
    use serde_json::{Value, json};

    use super::*;
    use crate::engine::{UnreadTensor, WorkerTensor};

    const Q: &str = "model.layers.0.self_attn.q_proj.weight";

    /// A folder with an embedding and a projection of 4 by 2 values each.
    fn folder(config: &Value, head: bool) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let mut names = vec![EMBEDDING, Q];
        names.extend(head.then_some(HEAD));
        let entries = names.iter().enumerate().map(|(at, name)| {
            format!(r#""{name}":{{"dtype":"F32","shape":[4,2],"data_offsets":[{},{}]}}"#, at * 32, at * 32 + 32)
        });
        let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
        let values = (0..names.len() * 8).map(|at| if at < 8 { at } else if at < 16 { 100 + at } else { at - 16 } as f32);
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.extend(values.flat_map(f32::to_le_bytes));
        std::fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
        std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        dir
    }

    /// What an honest worker says of some rows of a tensor in a folder.
    fn rows(folder: &Path, name: &str, stored: &str, start: u64, count: u64, dtype: &str) -> WorkerTensor {
        let tensors = WeightFiles::read(&Folder::new(folder)).unwrap().tensors().unwrap();
        let part = TensorPart { start: vec![start, 0], shape: vec![count, 2] };
        let sha256 = tensor_digest(&tensors[stored], &part, FloatType::named(dtype).unwrap()).unwrap();
        WorkerTensor { name: name.into(), dtype: dtype.into(), shape: part.shape, start: part.start, sha256 }
    }

    fn worker(tensors: Vec<WorkerTensor>) -> WorkerTensors {
        WorkerTensors { dtype: "bfloat16".into(), tensors, unread: Vec::new() }
    }

    fn tied() -> Value {
        json!({"tie_word_embeddings": true})
    }

    #[test]
    fn parts_of_several_workers_in_the_engines_type_are_equal_together() {
        let dir = folder(&tied(), false);
        let part = |name, start, count| rows(dir.path(), name, name, start, count, "bfloat16");
        let workers =
            [worker(vec![part(EMBEDDING, 0, 4), part(Q, 0, 2)]), worker(vec![part(EMBEDDING, 0, 4), part(Q, 2, 2)])];
        let proof = compare(dir.path(), &workers);
        assert_eq!((proof.state(), proof.tensors, proof.unread), (ExactProofState::Equal, 2, 0), "{proof:?}");
        assert_eq!(proof.dtype, "bfloat16");
        let proof = compare(dir.path(), &workers[..1]);
        assert_eq!((proof.state(), proof.unread), (ExactProofState::Incomplete, 1), "half of a tensor: {proof:?}");
        assert_eq!(proof.unread_reasons, [format!("{Q}: no worker has all of it")]);
    }

    #[test]
    fn a_tensor_that_was_not_loaded_is_named() {
        let dir = folder(&tied(), false);
        let honest = |name| rows(dir.path(), name, name, 0, 4, "float32");
        let stale = WorkerTensor { sha256: "00".into(), ..honest(Q) };
        let proof = compare(dir.path(), &[worker(vec![honest(EMBEDDING), stale])]);
        assert_eq!((proof.state(), proof.different), (ExactProofState::Different, 1));
        assert_eq!(proof.different_names, [Q]);
    }

    #[test]
    fn the_head_of_a_tied_model_is_the_embedding_also_where_it_is_written_out() {
        for (config, has_head) in [(tied(), false), (with_head_written_out(tied()), true)] {
            let dir = folder(&config, has_head);
            let honest = |name, stored| rows(dir.path(), name, stored, 0, 4, "float32");
            let worker_with_head = |head| worker(vec![honest(EMBEDDING, EMBEDDING), honest(Q, Q), head]);
            let proof = compare(dir.path(), &[worker_with_head(honest(HEAD, EMBEDDING))]);
            assert_eq!(proof.state(), ExactProofState::Equal, "{proof:?}");
            let proof = compare(dir.path(), &[worker_with_head(honest(HEAD, Q))]);
            assert_eq!((proof.state(), proof.different_names), (ExactProofState::Different, vec![HEAD.to_owned()]));
        }
    }

    #[test]
    fn what_cannot_be_compared_is_said_and_proves_nothing() {
        let dir = folder(&tied(), false);
        let honest = |name| rows(dir.path(), name, name, 0, 4, "float32");
        let quantized = UnreadTensor { name: Q.into(), why: "it is quantized".into() };
        let one = WorkerTensors { unread: vec![quantized], ..worker(vec![honest(EMBEDDING)]) };
        let proof = compare(dir.path(), &[one]);
        assert_eq!((proof.state(), proof.unread), (ExactProofState::Incomplete, 1));
        assert_eq!(proof.unread_reasons, [format!("{Q}: it is quantized")]);

        let strange = WorkerTensor { name: "vision.weight".into(), ..honest(Q) };
        let integers = WorkerTensor { dtype: "int8".into(), ..honest(Q) };
        let outside = WorkerTensor { start: vec![3, 0], ..honest(EMBEDDING) };
        let proof = compare(dir.path(), &[worker(vec![honest(EMBEDDING), strange, integers, outside])]);
        assert_eq!((proof.state(), proof.unread), (ExactProofState::Incomplete, 2), "{proof:?}");
        assert_eq!(proof.unread_reasons.len(), 3, "{proof:?}");
        let proof = compare(Path::new("/nowhere"), &[worker(Vec::new())]);
        assert_eq!(proof.state(), ExactProofState::Incomplete);
        assert!(proof.unread_reasons[0].starts_with("the weights cannot be read here: "), "{proof:?}");
        assert_eq!(compare(dir.path(), &[]).state(), ExactProofState::Incomplete);
    }
}
