//! Sessions: cells that see what those before them have left, and nothing else.

use std::sync::LazyLock;
use std::time::Duration;

use evenkeel_sandbox::{CellOutcome, CellPool, CellSession, CellSettings};

const SETTINGS: CellSettings = CellSettings {
    threads: 1,
    memory_bytes: 512 << 20,
    session_bytes: 64 << 20,
    cell_time: Duration::from_secs(2),
    output_chars: 1000,
};

static POOL: LazyLock<CellPool> =
    LazyLock::new(|| CellPool::in_process(&crate::support::INTERPRETER, SETTINGS).expect("settings that hold"));

/// Sessions share a pool, one test at a time having its sessions.
fn session() -> CellSession {
    loop {
        if let Ok(session) = POOL.open() {
            return session;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ran(session: &CellSession, source: &str) -> String {
    match session.run_and_wait(source) {
        CellOutcome::Ran { text, raised: false } => text,
        other => panic!("{source}: {other:?}"),
    }
}

fn raised(session: &CellSession, source: &str) -> String {
    match session.run_and_wait(source) {
        CellOutcome::Ran { text, raised: true } => text,
        other => panic!("{source}: {other:?}"),
    }
}

fn ended(session: &CellSession, source: &str) -> String {
    match session.run_and_wait(source) {
        CellOutcome::Ended { why, .. } => why,
        other => panic!("{source}: {other:?}"),
    }
}

#[test]
fn a_cell_sees_what_those_before_it_have_left_and_shows_its_last_expression() {
    let session = session();
    assert_eq!(ran(&session, "import math\nx = 40\ndef f(n):\n    return n + x"), "");
    assert_eq!(ran(&session, "f(2)"), "42\n");
    assert_eq!(ran(&session, "print('a'); 'b'"), "a\n'b'\n");
    assert_eq!(ran(&session, "_ + 'c'"), "'bc'\n");
    assert_eq!(ran(&session, "None"), "");
    assert_eq!(
        ran(&session, "import sys\nprint('err', file=sys.stderr)\nsys.stdout.write('no newline')"),
        "err\nno newline10\n"
    );
    assert_eq!(ran(&session, "[(lambda: x)() for _ in range(2)]"), "[40, 40]\n");
}

#[test]
fn what_a_cell_does_wrong_is_text_and_the_session_goes_on() {
    let session = session();
    ran(&session, "kept = 7");
    assert_eq!(
        raised(&session, "1/0"),
        "Traceback (most recent call last):\n  File \"<cell>\", line 1, in <module>\n\
        ZeroDivisionError: division by zero\n"
    );
    assert!(raised(&session, "a b").ends_with("SyntaxError: invalid syntax\n"));
    assert!(raised(&session, "def g(n): return g(n + 1)\ng(0)").contains("RecursionError"));
    assert!(raised(&session, "open('/etc/passwd')").contains("Error"));
    assert!(raised(&session, "input()").contains("EOFError"));
    assert!(raised(&session, "raise KeyboardInterrupt").contains("KeyboardInterrupt"));
    assert_eq!(ran(&session, "raise SystemExit(3)"), "SystemExit: the interpreter goes on\n");
    assert_eq!(ran(&session, "kept"), "7\n");
}

#[test]
fn long_output_is_cut_with_a_mark_and_every_script_arrives() {
    let session = session();
    let long = ran(&session, "print('é' * 5000)");
    assert_eq!(long, format!("{}\n[cut off: 1000 of 5001 characters]", "é".repeat(1000)));
    assert_eq!(ran(&session, "print('中文 العربية 🦊')"), "中文 العربية 🦊\n");
    assert_eq!(ran(&session, "print('half \\ud83d')"), "half ?\n");
    assert_eq!(
        ran(&session, "for _ in range(10**5): print('x' * 100)").len(),
        1000 + "\n[cut off: 1000 of 10100000 characters]".len()
    );
}

#[test]
fn a_cell_over_a_limit_is_ended_and_the_next_one_begins_anew() {
    let session = session();
    for (source, words) in [
        ("while True: pass", "it took longer than 2 s"),
        ("import time; time.sleep(100)", "it took longer than 2 s"),
        ("x = bytearray(200 << 20)", "memory"),
        ("import os; os._exit(3)", "it ended its interpreter"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 80))", "the sandbox has no wasi:sockets"),
        ("import os\nwhile True: os.write(1, b'x' * 100000)", "it wrote more than it may"),
    ] {
        ran(&session, "before = 1");
        let why = match session.run_and_wait(source) {
            CellOutcome::Ended { why, .. } => why,
            // Python refuses the memory itself.
            CellOutcome::Ran { text, raised: true } => text.to_lowercase(),
            other => panic!("{source}: {other:?}"),
        };
        assert!(why.contains(words), "{source}: {why}");
    }
    assert_eq!(ended(&session, "while True: pass"), "it took longer than 2 s");
    assert!(raised(&session, "before").contains("NameError"));
}

#[test]
fn sessions_know_nothing_of_each_other_and_are_the_same_every_time() {
    let a = session();
    let b = session();
    ran(&a, "secret = 1; import builtins; builtins.leak = 2");
    assert!(raised(&b, "secret").contains("NameError"));
    assert!(raised(&b, "leak").contains("NameError"));
    let cells = [
        "import random, time",
        "random.random()",
        "time.time() > 0",
        "hash('a')",
        "id(object())",
        "import os; os.urandom(4)",
    ];
    let results = |session: &CellSession| cells.map(|cell| ran(session, cell));
    let c = session();
    let d = session();
    assert_eq!(results(&c), results(&d));
}

#[test]
fn sessions_are_admitted_by_the_memory_that_they_may_take() {
    let pool = CellPool::in_process(&crate::support::INTERPRETER, CellSettings { memory_bytes: 130 << 20, ..SETTINGS })
        .unwrap();
    let first = pool.open().unwrap();
    let _second = pool.open().unwrap();
    assert_eq!(pool.open().err().unwrap().to_string(), "2 sessions have all the memory that there is for them");
    ran(&first, "x = 1");
    drop(first);
    let third = pool.open().unwrap();
    assert!(raised(&third, "x").contains("NameError"));
}

#[test]
fn a_session_that_is_dropped_ends_the_cell_that_runs() {
    let pool = CellPool::in_process(
        &crate::support::INTERPRETER,
        CellSettings { cell_time: Duration::from_secs(600), ..SETTINGS },
    );
    let pool = pool.unwrap();
    let session = pool.open().unwrap();
    session.run("while True: pass".to_owned(), |_| {});
    std::thread::sleep(Duration::from_millis(200));
    drop(session);
    let next = pool.open().unwrap();
    assert_eq!(ran(&next, "1 + 1"), "2\n");
}
