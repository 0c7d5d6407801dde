//! Runs the programs and tests that `run.py` runs natively, and prints the measurements as one line of JSON.
//!
//! `evenkeel-bench code FILE`: the file comes from `run.py`, {"groups": {name: [{program, inputs}]}, "kernels": {name:
//! program}}. All tests of a program are run; their output does not matter.

use std::error::Error;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use evenkeel_sandbox::rows::{Test, TestKind, Tests};
use evenkeel_sandbox::{
    Interpreter, Pool, PoolSettings, ProgramLimits, ProgramSubmission, ProgramTask, WorkerProcessCommand, guest,
    run_worker_process,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// Runs of a trivial program to measure the overhead.
const OVERHEAD_RUNS: usize = 4000;
/// Runs of each kernel, of which the fastest counts.
const ROUNDS: usize = 7;
/// Second argument with which this program is a worker process of its own pool.
const WORKER_PROCESS: &str = "worker-process";
const TRIVIAL: &str = "print(input())";

pub(crate) fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let path = arguments.first().ok_or("usage: evenkeel-bench code FILE")?;
    if path == WORKER_PROCESS {
        return Ok(run_worker_process(&guest::default_folder()?)?);
    }
    let load: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    // Built and compiled before anything is timed.
    drop(Interpreter::load(&guest::default_folder()?, 1, &|line| eprintln!("{line}"))?);
    let command = WorkerProcessCommand {
        program: std::env::current_exe()?,
        arguments: vec!["code".into(), WORKER_PROCESS.into()],
    };
    let pool = Pool::with_worker_processes(&command, PoolSettings { workers, queue: 1 << 20, memory_bytes: None })?;

    // Warm-up: the first instances allocate the memory of the pool.
    overhead(&pool, 200)?;
    let mut groups = Map::new();
    for (name, programs) in load["groups"].as_object().ok_or("no groups")? {
        groups.insert(name.clone(), group(&pool, programs, workers)?);
    }
    let mut kernels = Map::new();
    for (name, program) in load["kernels"].as_object().ok_or("no kernels")? {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            times.push(pool.judge(task(text(program), &[""])?)?.cpu);
        }
        kernels.insert(name.clone(), json!(times.iter().min().map_or(0.0, Duration::as_secs_f64)));
    }
    let overhead = overhead(&pool, OVERHEAD_RUNS)?;
    println!("{}", json!({"workers": workers, "groups": groups, "kernels": kernels, "overhead_ms": overhead}));
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn task(program: &str, inputs: &[&str]) -> Result<ProgramTask, Box<dyn Error>> {
    let tests = inputs.iter().map(|input| Test::new(TestKind::Stdin, *input, ""));
    let mut task =
        ProgramTask::new(ProgramSubmission::Program(program.to_owned()), Arc::new(Tests::new(tests.collect(), None)?));
    task.run_all_tests = true;
    task.limits =
        ProgramLimits { cpu: Duration::from_secs(60), wall: Duration::from_secs(600), ..ProgramLimits::default() };
    Ok(task)
}

/// Tests per second and core, with all cores busy.
fn group(pool: &Pool, programs: &Value, workers: usize) -> Result<Value, Box<dyn Error>> {
    let mut tasks = Vec::new();
    let mut count = 0;
    for row in programs.as_array().ok_or("a group is a list")? {
        let inputs: Vec<&str> = row["inputs"].as_array().into_iter().flatten().map(text).collect();
        count += inputs.len();
        tasks.push(task(text(&row["program"]), &inputs)?);
    }
    let began = Instant::now();
    let verdicts = together(pool, tasks)?;
    let wall = began.elapsed().as_secs_f64();
    let ran: usize = verdicts.iter().map(|verdict| verdict.0).sum();
    if ran != count {
        return Err(format!("{ran} of {count} tests ran").into());
    }
    let cpu: f64 = verdicts.iter().map(|verdict| verdict.1.as_secs_f64()).sum();
    Ok(
        json!({"tests": count, "wall_s": wall, "program_cpu_s": cpu, "tests_per_s_core": count as f64 / wall / workers as f64}),
    )
}

/// Latency of a test of a trivial program in milliseconds, with all cores busy: p50 and p99.
fn overhead(pool: &Pool, runs: usize) -> Result<Value, Box<dyn Error>> {
    let mut latencies: Vec<f64> = Vec::with_capacity(runs);
    // As many at a time as there are workers, so that none waits in the queue.
    let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let collected = Mutex::new(&mut latencies);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                for _ in 0..runs / workers {
                    let Ok(task) = task(TRIVIAL, &["1"]) else { return };
                    let began = Instant::now();
                    // A program that did not run must not count as fast.
                    if pool.judge(task).is_ok_and(|verdict| verdict.stdout_excerpt == "1\n") {
                        let took = began.elapsed().as_secs_f64() * 1e3;
                        collected.lock().expect("no thread panics").push(took);
                    }
                }
            });
        }
    });
    if latencies.len() != runs / workers * workers {
        return Err(format!("{} of {runs} trivial programs ran", latencies.len()).into());
    }
    latencies.sort_by(f64::total_cmp);
    let quantile = |part: f64| latencies.get((latencies.len() as f64 * part) as usize).copied().unwrap_or_default();
    Ok(json!({"p50": quantile(0.5), "p99": quantile(0.99), "best": quantile(0.0)}))
}

/// Number of tests and CPU time of every program.
fn together(pool: &Pool, tasks: Vec<ProgramTask>) -> Result<Vec<(usize, Duration)>, Box<dyn Error>> {
    let (sender, receiver) = mpsc::channel();
    for task in tasks {
        let sender = sender.clone();
        // The receiver outlives every task.
        pool.submit(task, CancellationToken::new(), move |verdict| {
            let _ = sender.send((verdict.run_tests, verdict.cpu));
        })?;
    }
    drop(sender);
    Ok(receiver.into_iter().collect())
}
