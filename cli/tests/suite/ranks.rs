//! Runs whose learner is several processes, as a launcher starts them: their numbers are those of one process,
//! whichever rank is lost.
//!
//! `EVENKEEL_RANK_KILLS=10 cargo test --release --workspace --test suite -- ranks::a_rank_that_is_killed` kills ten
//! times at random moments.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use evenkeel_proto::v1::learner_client::LearnerClient;
use evenkeel_proto::v1::operate_request::Kind;
use evenkeel_proto::v1::{AccumulateOperation, ApplyOperation, BeginOperation, OperateRequest, TargetSequence};
use evenkeel_rpc::client::{ClientSettings, Connector, ServerAddress};
use evenkeel_rpc::error::{Reason, has_reason};

use crate::certificates::Folder as Certificates;
use crate::recompute::assert_weighed;
use crate::support::{
    Process, count_lines, evenkeel, free_ports, lines, refused, resume, small, succeed, summary, train, wait_for,
    written_model,
};

/// Every answer has a gradient, whatever its reward, in two updates of each step.
const SETTINGS: [&str; 2] = ["learner.objective.entropy_coefficient=0.001", "learner.mini_batch_groups=2"];

fn with(mut command: Command, settings: &[&str]) -> Command {
    command.args(SETTINGS.iter().chain(settings).flat_map(|setting| ["--set", *setting]));
    command
}

/// A file with the token of the ranks of all tests here.
static TOKEN: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut file = tempfile::NamedTempFile::new_in(folder).unwrap();
    file.write_all(b"0123456789abcdef0123456789abcdef\n").unwrap();
    let path = folder.join("ranks.token");
    file.persist(&path).unwrap();
    path
});

/// A process as a launcher starts it.
fn as_rank(command: Command, rank: usize, ranks: usize, port: u16) -> Command {
    let mut command = as_rank_without_token(command, rank, ranks, port);
    command.args(["--set", &format!("learner.ranks.token_file={}", TOKEN.display())]);
    command
}

fn as_rank_without_token(mut command: Command, rank: usize, ranks: usize, port: u16) -> Command {
    command.env("RANK", rank.to_string()).env("WORLD_SIZE", ranks.to_string());
    command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
    // The number of ranks is the launcher's.
    command.args(["--set", "learner.ranks.count=0", "--set", "learner.compute.threads=1", "--log", "info"]);
    command
}

/// The log of a rank.
fn log(out: &Path, rank: usize) -> PathBuf {
    out.with_extension(format!("rank-{rank}.log"))
}

fn start(out: &Path, rank: usize, ranks: usize, port: u16, more: &[&str]) -> Process {
    let command = with(as_rank(train(out), rank, ranks, port), more);
    Process::start_logging(command, &log(out, rank))
}

fn start_all(out: &Path, ranks: usize, port: u16, more: &[&str]) -> Vec<Process> {
    (0..ranks).map(|rank| start(out, rank, ranks, port, more)).collect()
}

/// Waits until all have ended well.
fn end_well(out: &Path, processes: Vec<Process>) {
    for (rank, mut process) in processes.into_iter().enumerate() {
        let status = process.0.wait().unwrap();
        let said = std::fs::read_to_string(log(out, rank)).unwrap_or_default();
        assert!(status.success(), "rank {rank}: {status}\n{said}");
    }
}

fn undisturbed(folder: &Path) -> PathBuf {
    undisturbed_with(folder, &[])
}

fn undisturbed_with(folder: &Path, more: &[&str]) -> PathBuf {
    let out = folder.join("alone");
    succeed(with(train(&out), more));
    assert!(lines(&out).iter().filter_map(|line| line.get("actor/grad_norm")).all(|norm| norm.as_f64() > Some(0.0)));
    out
}

fn assert_same(out: &Path, alone: &Path) {
    let found = lines(out);
    let wanted = lines(alone);
    for (found, wanted) in found.iter().zip(&wanted) {
        for (name, value) in wanted {
            assert_eq!(found.get(name), Some(value), "{name} of {:?}", wanted.get("step"));
        }
    }
    assert_eq!(found.len(), wanted.len());
}

#[test]
fn two_and_four_ranks_have_the_numbers_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let alone = undisturbed(folder.path());
    for ranks in [2, 4] {
        let out = folder.path().join(ranks.to_string());
        let [port] = free_ports();
        let all = start_all(&out, ranks, port, &[]);
        end_well(&out, all);
        assert_same(&out, &alone);
    }
}

#[test]
fn a_step_that_ranks_did_is_recomputed_and_weighed_in_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let [port] = free_ports();
    let all = start_all(&out, 2, port, &["run.steps=3", "checkpoint.keep=0"]);
    end_well(&out, all);
    let mut command = evenkeel(&["check", "--step", "3"]);
    command.arg(&out);
    let said = String::from_utf8(succeed(command).stdout).unwrap();
    assert!(said.contains(" sampled tokens of step 3 are drawn again\n"), "{said}");
    assert!(said.ends_with("equal: step 3 is what the run recorded\n"), "{said}");
    assert_weighed(&out, 3);
}

#[test]
fn ranks_of_torchrun_meet_beside_its_store() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    // As its agent does, which serves its store at MASTER_PORT for as long as the ranks run.
    let (store, port) = (0..100)
        .find_map(|_| {
            let store = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = store.local_addr().unwrap().port();
            TcpListener::bind(("127.0.0.1", port.checked_add(1)?)).ok()?;
            Some((store, port))
        })
        .unwrap();
    let start = |rank| {
        let mut command = with(as_rank(train(&out), rank, 2, port), &["run.steps=2"]);
        command.env("TORCHELASTIC_RUN_ID", "none");
        Process::start_logging(command, &log(&out, rank))
    };
    end_well(&out, (0..2).map(start).collect());
    // At the store's own port nobody else can listen, which is said by the setting that chooses another.
    let said = refused(with(as_rank(train(&folder.path().join("other")), 0, 2, port), &[]));
    assert!(said.contains(&format!("cannot listen on 127.0.0.1:{port} (setting `learner.ranks.address`)")), "{said}");
    drop(store);
}

#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let alone = undisturbed(folder.path());
    let out = folder.path().join("run");
    let [port] = free_ports();
    let all = start_all(&out, 2, port, &["run.steps=2"]);
    end_well(&out, all);
    let [port] = free_ports();
    let more = |rank| {
        let mut command = as_rank(resume(&out), rank, 4, port);
        command.args(["--set", "run.steps=4"]);
        Process::start_logging(command, &log(&out, rank))
    };
    let all = (0..4).map(more).collect();
    end_well(&out, all);
    let mut last = resume(&out);
    last.args(["--set", "run.steps=6", "--set", "learner.ranks.count=1"]);
    succeed(last);
    // A run is also evaluated where it ends.
    let steps = |run: &Path| -> Vec<_> {
        lines(run).into_iter().filter(|line| line.get("kind").is_none_or(|kind| kind != "evaluation")).collect()
    };
    let found = steps(&out);
    let wanted = steps(&alone);
    assert_eq!((found.len(), found.len() > 6), (wanted.len(), true));
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted);
    }
}

/// A number below `most` that differs from call to call.
fn random(most: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(Instant::now()) % most
}

#[test]
fn a_rank_that_is_killed_is_named_and_once_it_is_back_the_run_returns_to_its_checkpoint_by_itself() {
    let kills = std::env::var("EVENKEEL_RANK_KILLS").map_or(2, |text| text.parse::<usize>().unwrap());
    let folder = tempfile::tempdir().unwrap();
    // Long enough that a rank that is killed last is back before the end: nobody waits for it afterwards.
    let long = ["run.steps=12"];
    let alone = undisturbed_with(folder.path(), &long);
    let mut killed = 0;
    let mut runs = 0;
    while killed < kills {
        let out = folder.path().join(format!("run-{runs}"));
        runs += 1;
        let [port] = free_ports();
        let mut all = start_all(&out, 3, port, &long);
        let metrics = out.join("metrics.jsonl");
        // At most one kill for each step, so that the learner does not lose its state too often at one and the same.
        for step in [0, 2, 4] {
            if killed == kills {
                break;
            }
            wait_for("a step", || count_lines(&metrics) > step || is_over(&out));
            if is_over(&out) {
                break;
            }
            std::thread::sleep(Duration::from_millis(random(700)));
            let rank = 1 + random(2) as usize;
            let finished = count_lines(&metrics);
            std::mem::replace(&mut all[rank], start_nothing()).kill();
            killed += 1;
            println!("rank {rank} killed after {finished} steps");
            std::thread::sleep(Duration::from_millis(random(500)));
            all[rank] = start(&out, rank, 3, port, &long);
        }
        end_well(&out, all);
        assert_same(&out, &alone);
    }
    // Whoever was lost is named, unless the run had nothing more to do with it.
    let said: String = (0..runs)
        .map(|run| std::fs::read_to_string(log(&folder.path().join(format!("run-{run}")), 0)).unwrap())
        .collect();
    println!("{}", said.lines().filter(|line| line.contains("lost")).collect::<Vec<_>>().join("\n"));
    assert!(said.contains(") is lost: "), "{said}");
}

fn is_over(out: &Path) -> bool {
    summary(out).is_some_and(|summary| summary["state"] == "completed")
}

/// Something that ends at once, in the place of a process.
fn start_nothing() -> Process {
    Process::start(Command::new("true"))
}

#[test]
fn a_rank_that_hangs_is_named_within_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let alone = undisturbed(folder.path());
    let out = folder.path().join("run");
    let [port] = free_ports();
    let quick = ["learner.ranks.timeout=4s"];
    let mut all = start_all(&out, 2, port, &quick);
    let metrics = out.join("metrics.jsonl");
    wait_for("a step", || count_lines(&metrics) > 1);
    all[1].signal("STOP");
    let began = Instant::now();
    let said = || std::fs::read_to_string(log(&out, 0)).unwrap();
    wait_for("its name", || said().contains("rank 1 ("));
    // A step may have been in progress that needs no exchange yet.
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    assert!(
        said().contains("hangs: it has sent no ") && said().contains("for 4s (setting `learner.ranks.timeout`)"),
        "{}",
        said()
    );
    std::mem::replace(&mut all[1], start_nothing()).kill();
    all[1] = start(&out, 1, 2, port, &quick);
    end_well(&out, all);
    assert_same(&out, &alone);
}

#[test]
fn whoever_is_not_of_these_ranks_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let [port] = free_ports();
    // Rank 0 waits for two others.
    let _first = start(&out, 0, 3, port, &[]);
    let refused = |rank: usize, ranks: usize, more: &[&str]| {
        let output = with(as_rank(train(&out), rank, ranks, port), more).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    for (error, words) in [
        (refused(3, 4, &[]), "rank is 3, allowed: 1 to 2: rank 0 has 3 ranks in all"),
        (refused(1, 4, &[]), "ranks is \"4\", allowed: 3, that of rank 0"),
        (refused(1, 3, &["learner.optimizer.learning_rate=1e-7"]), "settings_hash is "),
        (refused(1, 3, &["run.seed=4"]), "weights_digest is "),
        (refused(4, 3, &[]), "learner.ranks.rank is 4, allowed: 0 to 2"),
    ] {
        assert!(error.contains(words), "{error}");
    }
    // Two launchers at once.
    let _second = start(&out, 1, 3, port, &[]);
    wait_for("the rank to join", || std::fs::read_to_string(log(&out, 0)).unwrap().contains("a rank has joined"));
    let error = refused(1, 3, &["learner.ranks.join_timeout=1s"]);
    assert!(error.contains("rank 1 has joined already, from "), "{error}");
}

#[test]
fn sigterm_ends_all_ranks_after_the_step_with_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let alone = undisturbed(folder.path());
    let out = folder.path().join("run");
    let [port] = free_ports();
    let mut all = start_all(&out, 2, port, &[]);
    wait_for("a step", || count_lines(&out.join("metrics.jsonl")) > 1);
    all.iter().for_each(|process| process.signal("TERM"));
    assert_eq!(all[0].0.wait().unwrap().code(), Some(143));
    assert_eq!(all[1].0.wait().unwrap().code(), Some(0));
    let mut rest = resume(&out);
    rest.args(["--set", "learner.ranks.count=1"]);
    succeed(rest);
    assert_same(&out, &alone);
}

#[test]
fn ranks_need_one_token_also_on_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let [port] = free_ports();
    let short = ["warm_start.steps=2", "run.steps=1"];
    for rank in 0..2 {
        let error = refused(with(as_rank_without_token(train(&out), rank, 2, port), &short));
        assert!(error.contains("learner.ranks.token_file is absent, required: a file with a token"), "{error}");
    }
    let guess = folder.path().join("guess");
    std::fs::write(&guess, "0123456789abcdef0123456789abcdee\n").unwrap();
    let guess = format!("learner.ranks.token_file={}", guess.display());
    let first = start(&out, 0, 2, port, &short);
    let error = refused(with(as_rank_without_token(train(&out), 1, 2, port), &[&short[..], &[&guess]].concat()));
    assert!(error.contains("is not one of this server's") && !error.contains("sha256"), "{error}");
    let second = start(&out, 1, 2, port, &short);
    end_well(&out, vec![first, second]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_trained_in_operations_is_gone_with_a_rank_and_the_run_begins_again() {
    let folder = tempfile::tempdir().unwrap();
    let model = written_model(folder.path());
    let [port, meeting] = free_ports();
    let serve = |rank: usize| {
        let of_rank = folder.path().join(rank.to_string());
        let mut command = evenkeel(&["serve", "learner"]);
        let settings = [
            format!("model={}", model.display()),
            format!("checkpoints={}", of_rank.join("checkpoints").display()),
            format!("weights={}", of_rank.join("weights").display()),
            format!("server.listen=127.0.0.1:{port}"),
            format!("training.ranks.address=127.0.0.1:{meeting}"),
            format!("training.ranks.rank={rank}"),
            format!("training.ranks.token_file={}", TOKEN.display()),
            "training.ranks.count=2".to_owned(),
            "training.compute.threads=1".to_owned(),
        ];
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        Process::start(command)
    };
    let _first = serve(0);
    let second = serve(1);
    let address = ServerAddress::new(format!("http://127.0.0.1:{port}"));
    let connector = Connector::new("client", ClientSettings::default()).unwrap();
    wait_for("the learner", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let client = LearnerClient::new(connector.connect(&address).await.unwrap());
    let operate = |sequence, kind| {
        let mut client = client.clone();
        async move {
            let request = OperateRequest { run_id: "mine".into(), sequence, kind: Some(kind) };
            client.operate(request).await.map(tonic::Response::into_inner)
        }
    };
    let begin = |version| Kind::Begin(BeginOperation { version, adapter_seed: None });
    let accumulate = || {
        let sequence = |first| TargetSequence {
            token_ids: vec![first, 3, 4],
            target_ids: vec![3, 4, 5],
            factors: vec![1.0; 3],
            ..TargetSequence::default()
        };
        let data = (3..9).map(sequence).collect();
        Kind::Accumulate(AccumulateOperation { data, loss: "cross_entropy".into(), ..AccumulateOperation::default() })
    };
    let apply = || {
        let beta1 = 0.9;
        let beta2 = 0.95;
        let epsilon = 1e-8;
        Kind::Apply(ApplyOperation { learning_rate: 1e-3, beta1, beta2, epsilon, ..ApplyOperation::default() })
    };
    operate(1, begin(10)).await.unwrap();
    let summed = operate(2, accumulate()).await.unwrap().accumulated.unwrap();
    second.kill();
    let lost = operate(3, apply()).await.unwrap_err();
    assert!(lost.message().contains("rank"), "{lost}");
    let _second = serve(1);
    let began = Instant::now();
    let refused = loop {
        let error = operate(3, apply()).await.unwrap_err();
        if has_reason(&error, Reason::OutOfOrder) {
            break error;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert!(refused.message().contains("the next operation of run `mine` is 1"), "{refused}");
    operate(1, begin(20)).await.unwrap();
    assert_eq!(operate(2, accumulate()).await.unwrap().accumulated.unwrap(), summed, "the weights of the beginning");
    assert_eq!(operate(3, apply()).await.unwrap().version, 21);
}

#[test]
fn when_rank_0_is_killed_the_others_wait_until_its_run_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let alone = undisturbed(folder.path());
    let out = folder.path().join("run");
    let [port] = free_ports();
    let mut all = start_all(&out, 3, port, &[]);
    wait_for("a step", || count_lines(&out.join("metrics.jsonl")) > 2);
    all.remove(0).kill();
    std::thread::sleep(Duration::from_millis(500));
    assert!(all.iter_mut().all(|rank| rank.0.try_wait().unwrap().is_none()), "the others are still there");
    let again = as_rank(resume(&out), 0, 3, port);
    all.insert(0, Process::start_logging(again, &log(&out, 0)));
    end_well(&out, all);
    assert_same(&out, &alone);
}

#[test]
fn a_job_that_is_started_again_as_a_whole_goes_on_with_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let alone = undisturbed(folder.path());
    let out = folder.path().join("run");
    let start_again = |port| -> Vec<_> {
        let rank = |rank| {
            let mut command = with(as_rank(train(&out), rank, 2, port), &[]);
            command.arg("--continue");
            Process::start_logging(command, &log(&out, rank))
        };
        (0..2).map(rank).collect()
    };
    let [port] = free_ports();
    let all = start_again(port);
    wait_for("a step", || count_lines(&out.join("metrics.jsonl")) > 2);
    all.into_iter().for_each(Process::kill);
    let [port] = free_ports();
    end_well(&out, start_again(port));
    assert_same(&out, &alone);
}

#[test]
fn a_rank_that_is_stopped_before_the_end_says_so_and_another_takes_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let alone = undisturbed(folder.path());
    let out = folder.path().join("run");
    let [port] = free_ports();
    let short = ["checkpoint.grace=1s"];
    let mut all = start_all(&out, 2, port, &short);
    wait_for("a step", || count_lines(&out.join("metrics.jsonl")) > 1);
    // The run must not be over within the second that is left to the rank.
    all[0].signal("STOP");
    all[1].signal("TERM");
    let status = all[1].0.wait().unwrap();
    all[0].signal("CONT");
    // A scheduler would not start again what ended with 0.
    assert_eq!(status.code(), Some(143), "{status}");
    all[1] = start(&out, 1, 2, port, &short);
    end_well(&out, all);
    assert_same(&out, &alone);
}

fn texts(settings: &[String]) -> Vec<&str> {
    settings.iter().map(String::as_str).collect()
}

#[test]
fn with_certificates_ranks_join_over_tls_by_their_role_alone() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let certificates = Certificates::new(&["localhost", "rank", "dashboard"]);
    let file = |name: &str| certificates.path(name).display().to_string();
    let server = [
        format!("learner.ranks.server.tls.certificate_file={}", file("localhost.pem")),
        format!("learner.ranks.server.tls.key_file={}", file("localhost.key")),
        format!("learner.ranks.server.tls.client_ca_file={}", file("ca.pem")),
        "learner.ranks.server.auth.certificates.rank=rank".to_owned(),
        "learner.ranks.server.auth.certificates.dashboard=reader".to_owned(),
    ];
    let client = |name: &str| {
        [
            format!("learner.ranks.client.tls.ca_file={}", file("ca.pem")),
            "learner.ranks.client.tls.server_name=localhost".to_owned(),
            format!("learner.ranks.client.tls.certificate_file={}", file(&format!("{name}.pem"))),
            format!("learner.ranks.client.tls.key_file={}", file(&format!("{name}.key"))),
        ]
    };
    let short = ["warm_start.steps=2".to_owned(), "run.steps=1".to_owned(), "learner.ranks.join_timeout=3s".to_owned()];
    let [port] = free_ports();
    let patient = [&server[..], &short[..2]].concat();
    let start = |rank, settings: &[String]| {
        let command = with(as_rank_without_token(train(&out), rank, 2, port), &texts(settings));
        Process::start_logging(command, &log(&out, rank))
    };
    let first = start(0, &patient);
    let refused = |client: &[String]| {
        let settings = [client, &short[..]].concat();
        let output = with(as_rank_without_token(train(&out), 1, 2, port), &texts(&settings)).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused(&client("dashboard"));
    assert!(error.contains("the role `reader` may not call evenkeel.v1.Ranks/Join, which requires `rank`"), "{error}");
    // Without a certificate of its own it does not even try.
    let error = refused(&[]);
    assert!(error.contains("learner.ranks.token_file is absent"), "{error}");
    // And with a token instead it does not reach the port's calls.
    let error = refused(&[format!("learner.ranks.token_file={}", TOKEN.display())]);
    assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
    let right = [&client("rank")[..], &short[..2]].concat();
    let second = start(1, &right);
    end_well(&out, vec![first, second]);
}

#[test]
fn a_learner_that_is_served_has_ranks_and_one_that_is_killed_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let alone = dir.join("alone");
    succeed(train(&alone));
    let model = written_model(dir);
    let [engine, generation, reward, learner, orchestrator, meeting] = free_ports();
    let (listen, place) = (
        |port: u16| format!("server.listen=127.0.0.1:{port}"),
        |name: &str| format!("{name}={}", dir.join(name).display()),
    );
    let command = |service: &str, settings: &[String]| {
        let recipe = small();
        let mut arguments = vec!["serve", service, "--recipe", recipe.to_str().unwrap()];
        arguments.extend(settings.iter().flat_map(|setting| ["--set", setting.as_str()]));
        evenkeel(&arguments)
    };
    let rank = |number: usize| {
        let settings = [
            listen(learner),
            place("model"),
            place("checkpoints"),
            place("weights"),
            "training.ranks.count=2".to_owned(),
            format!("training.ranks.token_file={}", TOKEN.display()),
            format!("training.ranks.address=127.0.0.1:{meeting}"),
        ];
        let mut command = command("learner", &settings);
        command.env("RANK", number.to_string());
        Process::start_logging(command, &dir.join(format!("learner-{number}.log")))
    };
    let _others = [
        Process::start(command(
            "orchestrator",
            &[
                listen(orchestrator),
                place("runs"),
                format!("start.set=[\"model.path={}\"]", model.display()),
                format!("endpoints.generation=http://127.0.0.1:{generation}"),
                format!("endpoints.reward=[\"http://127.0.0.1:{reward}\"]"),
                format!("endpoints.learner=http://127.0.0.1:{learner}"),
            ],
        )),
        Process::start(command("reward", &[listen(reward)])),
        Process::start(command(
            "generation",
            &[listen(generation), format!("endpoints=[\"http://127.0.0.1:{engine}\"]")],
        )),
        Process::start(command("engine", &[format!("listen=127.0.0.1:{engine}"), place("model")])),
    ];
    let mut first = rank(0);
    let second = rank(1);
    let run = dir.join("runs/small");
    wait_for("a step", || count_lines(&run.join("metrics.jsonl")) > 1);
    second.kill();
    let mut second = rank(1);
    wait_for("the run's end", || is_over(&run));
    assert_same(&run, &alone);
    let said = std::fs::read_to_string(dir.join("learner-0.log")).unwrap();
    assert!(said.contains("rank 1 (") && said.contains("all ranks have joined again"), "{said}");
    // The other rank ends with rank 0, and has nothing more to do.
    first.signal("TERM");
    assert_eq!(first.0.wait().unwrap().code(), Some(0));
    assert_eq!(second.0.wait().unwrap().code(), Some(0));
}
