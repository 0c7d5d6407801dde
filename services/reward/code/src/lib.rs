//! Model-written Python against tests, in CPython inside wasmtime.
#![deny(unsafe_code)]

pub mod compare;
pub mod extract;
pub mod guest;
pub mod rows;

mod interpreter;
mod judge;
mod limits;
mod pool;
mod sandbox;
mod task;
mod verdict;

pub use interpreter::Interpreter;
pub use limits::Limits;
pub use pool::{Full, Pool, PoolSettings};
pub use sandbox::Cancel;
pub use task::{Answer, Mode, RewardRule, Task};
pub use verdict::{EXCERPT_BYTES, GraderResult, Invalid, Outcome, Verdict};

#[cfg(test)]
mod probe {
    use std::time::{Duration, Instant};
    use crate::sandbox::*;
    #[test]
    fn probe() {
        let t = Instant::now();
        let engine = engine(2, false).unwrap();
        let folder = std::path::PathBuf::from("/tmp/cx/guestdir");
        let component = if let Ok(w) = std::env::var("WASM") { wasmtime::component::Component::from_file(&engine, w).unwrap() } else { crate::guest::load(&folder, &engine, &|line| println!("{line} {:?}", t.elapsed())).unwrap() };
        println!("loaded {:?}", t.elapsed());
        let sandbox = Sandbox::new(&engine, &component).unwrap();
        println!("pre {:?}", t.elapsed());
        std::thread::Builder::new().stack_size(THREAD_STACK).spawn(move || {
            let budget = Budget { time: Duration::from_secs(10), wall: Duration::from_secs(100), memory: 1 << 30, output: 1 << 20, deterministic: false };
            for file in std::env::var("PROBE").unwrap().split(',') {
                let source = std::fs::read(file).unwrap();
                let mut times = vec![];
                let mut cpu = vec![];
                for i in 0..std::env::var("N").unwrap_or("1".into()).parse().unwrap() {
                    let t = Instant::now();
                    let run = sandbox.process(&source, (*b"3\n1 2 3\n").into(), &budget, &Cancel::new());
                    times.push(t.elapsed());
                    cpu.push(run.cpu);
                    if i == 0 { println!("{file} {:?} {:?} {} {:?}\n{}\n{}", t.elapsed(), run.cpu, run.memory, run.ending, String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr)); }
                }
                times.sort();
                cpu.sort();
                println!("wall min {:?} p50 {:?} p99 {:?}; cpu p50 {:?}", times[0], times[times.len()/2], times[times.len()*99/100], cpu[cpu.len()/2]);
            }
        }).unwrap().join().unwrap();
    }
}
