//! The live page: runs in a browser while they happen.
//!
//! It is the page of `report.html`, section by section, and follows a stream of server-sent events: sections that
//! changed, and for a run of this process its state, its services, samples and log. Text of a model reaches the browser
//! as text only; scripts and styles are two files of this program, and nothing else is loaded. What it costs is
//! bounded: sections are made while somebody watches, for all readers together, and never for more than one part in a
//! hundred of the time ([`RunView`](evenkeel_run_report::RunView)); connections, requests and slow readers are limited
//! ([`listener`]).

mod follow;
mod list;
mod listener;
mod routes;
mod server;
mod shown;
mod sse;

pub use server::PageServer;
