//! NCCL on cards, by cudarc. Compiled and never run: no machine with several cards has been at hand.

use std::sync::Arc;

use candle_core::cuda_backend::cudarc::driver::{CudaEvent, CudaSlice, CudaStream, DriverError};
use candle_core::cuda_backend::cudarc::nccl::result::NcclError;
use candle_core::cuda_backend::cudarc::nccl::{Comm, Id, group_end, group_start};

use super::NcclCalls;

/// Bytes of a unique id.
const ID: usize = 128;

/// One card's end of a communicator.
pub struct Cards {
    stream: Arc<CudaStream>,
    comm: Option<Comm>,
    /// What is under way: what is sent, which must stay where it is, what comes, by rank, and the event behind it.
    group: Option<Group>,
}

struct Group {
    _sent: Vec<Option<CudaSlice<u8>>>,
    come: Vec<Option<CudaSlice<u8>>>,
    end: CudaEvent,
}

impl Cards {
    /// On a stream of the rank's card.
    pub fn new(stream: Arc<CudaStream>) -> Self {
        Self { stream, comm: None, group: None }
    }
}

fn nccl(error: NcclError) -> String {
    format!("{:?}", error.0)
}

fn driver(error: DriverError) -> String {
    error.to_string()
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
        self.comm = Some(Comm::from_rank(Arc::clone(&self.stream), rank, ranks, Id::uninit(internal)).map_err(nccl)?);
        Ok(())
    }

    fn begin(&mut self, parts: Vec<Vec<u8>>, sizes: &[usize]) -> Result<(), String> {
        let comm = self.comm.as_ref().ok_or("the communicator was aborted")?;
        let (mut sent, mut come) = (Vec::new(), Vec::new());
        // Copies and room first: within a group there are sends and receives alone.
        for (part, &size) in parts.iter().zip(sizes) {
            sent.push((!part.is_empty()).then(|| self.stream.clone_htod(part)).transpose().map_err(driver)?);
            come.push((size > 0).then(|| self.stream.alloc_zeros::<u8>(size)).transpose().map_err(driver)?);
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
        let end = self.stream.record_event(None).map_err(driver)?;
        self.group = Some(Group { _sent: sent, come, end });
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Vec<Vec<u8>>>, String> {
        let group = self.group.take_if(|group| group.end.is_complete());
        let Some(group) = group else { return Ok(None) };
        let bytes = |slice: Option<CudaSlice<u8>>| match slice {
            Some(slice) => self.stream.clone_dtoh(&slice).map_err(driver),
            None => Ok(Vec::new()),
        };
        group.come.into_iter().map(bytes).collect::<Result<_, _>>().map(Some)
    }

    fn abort(&mut self) {
        // Dropping it is `ncclCommAbort`, which ends what is under way; only then may its memory go.
        self.comm = None;
        self.group = None;
    }
}
