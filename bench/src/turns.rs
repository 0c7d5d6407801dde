//! Turns of episodes with an interpreter of their own, as the environment `python` plays them; prints the measurements
//! as one line of JSON.
//!
//! `evenkeel-bench turns SECONDS`: every core has a worker process with many sessions. Each turn runs the next of a few
//! short programs, as models write them, and the last of an episode ends it: the next turn begins another one.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_sandbox::{
    CellOutcome, CellPool, CellSettings, Interpreter, WorkerProcessCommand, guest, run_session_process,
};
use serde_json::json;

/// Second argument with which this program is a worker process.
const SESSIONS: &str = "sessions";
/// Episodes of each core that are open at once.
const OPEN: usize = 32;

/// The turns of an episode, each with what it must show.
const TURNS: [(&str, &str); 8] = [
    ("a, b = 347, 289\na * b", "100283\n"),
    ("import math\nprint(math.gcd(a, b), math.factorial(20))", "1 2432902008176640000\n"),
    ("def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nf(15)", "610\n"),
    (
        "primes = [p for p in range(2, 500) if all(p % q for q in range(2, int(p**0.5) + 1))]\n\
        len(primes), sum(primes)",
        "(95, 21536)\n",
    ),
    ("from fractions import Fraction\nsum(Fraction(1, k) for k in range(1, 20))", "Fraction(275295799, 77597520)\n"),
    ("from collections import Counter\nCounter('mississippi').most_common(2)", "[('i', 4), ('s', 4)]\n"),
    ("total = 0\nfor i in range(2000):\n    total += i * i % 7\nprint(total)", "3999\n"),
    ("primes[-1] - total", "-3500\n"),
];

pub(crate) fn run(asked: &[String]) -> Result<(), Box<dyn Error>> {
    let folder = guest::default_folder()?;
    if let [first, sessions] = asked
        && first == SESSIONS
    {
        return Ok(run_session_process(&folder, sessions.parse()?)?);
    }
    let seconds: u64 = asked.first().ok_or("usage: evenkeel-bench turns SECONDS")?.parse()?;
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    // Built and compiled before anything is timed.
    drop(Interpreter::load_counted(&folder, 1, &|line| eprintln!("{line}"))?);
    let settings = CellSettings {
        threads,
        memory_bytes: (threads * OPEN) as u64 * (64 << 20),
        session_bytes: 64 << 20,
        cell_time: Duration::from_secs(10),
        output_chars: 16_384,
    };
    let command =
        WorkerProcessCommand { program: std::env::current_exe()?, arguments: vec!["turns".into(), SESSIONS.into()] };
    let pool = CellPool::with_worker_processes(&command, settings)?;
    let is_over = AtomicBool::new(false);
    let began = Instant::now();
    let played: Vec<Result<Times, String>> = std::thread::scope(|scope| {
        let players: Vec<_> = (0..threads * OPEN).map(|_| scope.spawn(|| play(&pool, &is_over))).collect();
        std::thread::sleep(Duration::from_secs(seconds));
        is_over.store(true, Ordering::Relaxed);
        players.into_iter().map(|player| player.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    let wall = began.elapsed().as_secs_f64();
    let mut times = Times::default();
    for played in played {
        let played = played?;
        times.first.extend(played.first);
        times.later.extend(played.later);
    }
    let turns = times.first.len() + times.later.len();
    println!(
        "{}",
        json!({
            "cores": threads,
            "open": threads * OPEN,
            "turns": turns,
            "turns_per_s_core": turns as f64 / wall / threads as f64,
            "episodes": times.first.len(),
            "first_ms": median(&mut times.first),
            "later_ms": median(&mut times.later),
        })
    );
    Ok(())
}

/// How long turns took while every core had others to do, in seconds: first ones, which start an interpreter, and later
/// ones.
#[derive(Default)]
struct Times {
    first: Vec<f64>,
    later: Vec<f64>,
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default() * 1e3
}

/// Plays episodes one after the other until it is over.
fn play(pool: &CellPool, is_over: &AtomicBool) -> Result<Times, String> {
    let mut times = Times::default();
    loop {
        let session = pool.open().map_err(|full| full.to_string())?;
        for (index, (source, expected)) in TURNS.into_iter().enumerate() {
            if is_over.load(Ordering::Relaxed) {
                return Ok(times);
            }
            let began = Instant::now();
            let outcome = session.run_and_wait(source);
            let took = began.elapsed().as_secs_f64();
            // A turn that shows something else must not count as fast.
            if outcome != (CellOutcome::Ran { text: expected.to_owned(), raised: false }) {
                return Err(format!("{source}: {outcome:?}"));
            }
            if index == 0 { times.first.push(took) } else { times.later.push(took) }
        }
    }
}
