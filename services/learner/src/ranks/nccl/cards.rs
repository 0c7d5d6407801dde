//! NCCL on cards, by cudarc. Compiled and never run: no machine with several cards has been at hand.
//!
//! A communicator stays on the thread that has made it, so one thread has it and does what the learner's thread orders.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use candle_core::cuda_backend::cudarc::driver::{CudaEvent, CudaSlice, CudaStream, DriverError};
use candle_core::cuda_backend::cudarc::nccl::result::NcclError;
use candle_core::cuda_backend::cudarc::nccl::{Comm, Id, group_end, group_start};

use super::NcclCalls;

/// Bytes of a unique id.
const ID: usize = 128;

/// One card's end of a communicator.
pub struct Cards {
    stream: Arc<CudaStream>,
    /// The way to the thread of the communicator; absent before it is made and after it was aborted.
    orders: Option<Sender<Order>>,
}

/// What the thread does, and where its answer goes.
enum Order {
    Begin(Vec<Vec<u8>>, Vec<usize>, Sender<Result<(), String>>),
    Take(Sender<Result<Option<Vec<Vec<u8>>>, String>>),
}

/// What is under way: what is sent, which must stay where it is, what comes, by rank, and the event behind it.
struct Group {
    _sent: Vec<Option<CudaSlice<u8>>>,
    come: Vec<Option<CudaSlice<u8>>>,
    end: CudaEvent,
}

impl Cards {
    /// On a stream of the rank's card.
    pub fn new(stream: Arc<CudaStream>) -> Self {
        Self { stream, orders: None }
    }

    /// Has the thread do something, and waits for its answer.
    fn order<T>(&self, order: impl FnOnce(Sender<Result<T, String>>) -> Order) -> Result<T, String> {
        let gone = || "the communicator was aborted".to_owned();
        let (answer, answered) = channel();
        self.orders.as_ref().ok_or_else(gone)?.send(order(answer)).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }
}

impl NcclCalls for Cards {
    fn unique_id(&mut self) -> Result<Vec<u8>, String> {
        let id = Id::new().map_err(nccl)?;
        Ok(id.internal().iter().map(|byte| byte.to_ne_bytes()[0]).collect())
    }

    fn join(&mut self, id: &[u8], rank: usize, ranks: usize) -> Result<(), String> {
        if id.len() != ID {
            return Err(format!("an id of {} bytes, expected: {ID}", id.len()));
        }
        let mut internal = [0; ID];
        for (to, from) in internal.iter_mut().zip(id) {
            *to = core::ffi::c_char::from_ne_bytes([*from]);
        }
        let (orders, receiver) = channel();
        let (joined, answer) = channel();
        let stream = Arc::clone(&self.stream);
        let thread = std::thread::Builder::new().name("nccl".into()).spawn(move || {
            match Comm::from_rank(Arc::clone(&stream), rank, ranks, Id::uninit(internal)) {
                Ok(comm) => {
                    let _ = joined.send(Ok(()));
                    serve(&stream, &comm, &receiver);
                }
                Err(error) => drop(joined.send(Err(nccl(error)))),
            }
        });
        thread.map_err(|error| error.to_string())?;
        answer.recv().map_err(|_| "its thread has ended".to_owned())??;
        self.orders = Some(orders);
        Ok(())
    }

    fn begin(&mut self, parts: Vec<Vec<u8>>, sizes: &[usize]) -> Result<(), String> {
        self.order(|answer| Order::Begin(parts, sizes.to_vec(), answer))
    }

    fn take(&mut self) -> Result<Option<Vec<Vec<u8>>>, String> {
        self.order(Order::Take)
    }

    fn abort(&mut self) {
        // The thread ends, and with it the communicator: dropping that is `ncclCommAbort`.
        self.orders = None;
    }
}

/// Does what is ordered until nothing more can be.
fn serve(stream: &Arc<CudaStream>, comm: &Comm, orders: &Receiver<Order>) {
    let mut group = None;
    while let Ok(order) = orders.recv() {
        match order {
            Order::Begin(parts, sizes, answer) => {
                let begun = begin(stream, comm, &parts, &sizes).map(|begun| group = Some(begun));
                let _ = answer.send(begun);
            }
            Order::Take(answer) => {
                let ended = group.take_if(|group| group.end.is_complete());
                let _ = answer.send(ended.map(|group| come(stream, group)).transpose());
            }
        }
    }
}

fn begin(stream: &Arc<CudaStream>, comm: &Comm, parts: &[Vec<u8>], sizes: &[usize]) -> Result<Group, String> {
    let mut sent = Vec::new();
    let mut come = Vec::new();
    // Copies and room first: within a group there are sends and receives alone.
    for (part, &size) in parts.iter().zip(sizes) {
        sent.push((!part.is_empty()).then(|| stream.clone_htod(part)).transpose().map_err(driver)?);
        come.push((size > 0).then(|| stream.alloc_zeros::<u8>(size)).transpose().map_err(driver)?);
    }
    group_start().map_err(nccl)?;
    for (rank, (part, room)) in sent.iter().zip(&mut come).enumerate() {
        if let Some(part) = part {
            comm.send(part, rank as i32).map_err(nccl)?;
        }
        if let Some(room) = room {
            comm.recv(room, rank as i32).map_err(nccl)?;
        }
    }
    group_end().map_err(nccl)?;
    let end = stream.record_event(None).map_err(driver)?;
    Ok(Group { _sent: sent, come, end })
}

/// What has come, in the host's memory.
fn come(stream: &Arc<CudaStream>, group: Group) -> Result<Vec<Vec<u8>>, String> {
    let bytes = |slice: Option<CudaSlice<u8>>| match slice {
        Some(slice) => stream.clone_dtoh(&slice).map_err(driver),
        None => Ok(Vec::new()),
    };
    group.come.into_iter().map(bytes).collect()
}

fn nccl(error: NcclError) -> String {
    format!("{:?}", error.0)
}

fn driver(error: DriverError) -> String {
    error.to_string()
}
