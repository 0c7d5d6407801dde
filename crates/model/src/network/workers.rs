//! A fixed number of threads, and how work is shared among them.

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use crate::error::{ModelError, Result};
use crate::sampling::Sampler;

/// A fixed number of threads.
pub(super) struct Workers {
    pool: Option<rayon::ThreadPool>,
    count: usize,
}

impl Workers {
    pub(super) fn new(count: usize) -> Result<Self> {
        let build = || {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(count).thread_name(|i| format!("model-{i}"));
            pool.build().map_err(|e| ModelError::input("threads", count, format!("what the system can start ({e})")))
        };
        let pool = if count > 1 { Some(build()?) } else { None };
        Ok(Self { pool, count })
    }

    /// Runs `work` on every item, the costliest first, and returns the results in the items' order. The first error by
    /// item order is returned once all threads have stopped.
    pub(super) fn run<R: Send>(&self, costs: &[u64], work: impl Fn(usize) -> Result<R> + Sync) -> Result<Vec<R>> {
        let shares = assign(costs, self.count);
        let mut done: Vec<Vec<(usize, Result<R>)>> = shares.iter().map(|_| Vec::new()).collect();
        let worker = |share: &[usize], done: &mut Vec<(usize, Result<R>)>| {
            for &index in share {
                let result = work(index);
                let failed = result.is_err();
                done.push((index, result));
                if failed {
                    break;
                }
            }
        };
        match &self.pool {
            Some(pool) => pool.scope(|scope| {
                for (share, done) in shares.iter().zip(&mut done) {
                    scope.spawn(|_| worker(share, done));
                }
            }),
            None => worker(&shares[0], &mut done[0]),
        }
        let mut results: Vec<_> = done.into_iter().flatten().collect();
        results.sort_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// Runs `work` on every thread at the same time, until it has returned on all of them.
    pub(super) fn everywhere(&self, work: impl Fn() + Sync) {
        match &self.pool {
            Some(pool) => drop(pool.broadcast(|_| work())),
            None => work(),
        }
    }

    /// Runs `work` on each row of `values` with its target, and returns the results in their order; the first error
    /// ends the work. A row's result depends on the row alone, so threads that wait for others may take its rows. With
    /// the model on a CPU these are the workers; with a GPU, which one thread feeds, all of the host's.
    pub(super) fn rows<T: Sync, R: Send>(
        &self,
        values: &mut [f32],
        targets: &[T],
        on_cpu: bool,
        work: impl Fn(&mut Sampler, (&mut [f32], &T)) -> Result<R> + Sync + Send,
    ) -> Result<Vec<R>> {
        let width = values.len() / targets.len().max(1);
        if on_cpu && self.pool.is_none() {
            let mut sampler = Sampler::default();
            return values.chunks_exact_mut(width).zip(targets).map(|row| work(&mut sampler, row)).collect();
        }
        let mut in_parallel = || {
            let rows = values.par_chunks_exact_mut(width).zip(targets.par_iter());
            rows.map_init(Sampler::default, |sampler, row| work(sampler, row)).collect()
        };
        match &self.pool {
            Some(pool) => pool.install(in_parallel),
            None => in_parallel(),
        }
    }
}

/// The items of each worker: the costliest first, each to the worker with the least so far (the lowest on ties).
fn assign(costs: &[u64], workers: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(costs[index]));
    let mut shares = vec![Vec::new(); workers];
    let mut load = vec![0u64; workers];
    for index in order {
        let worker = (0..workers).min_by_key(|&worker| load[worker]).expect("there is at least one worker");
        load[worker] += costs[index];
        shares[worker].push(index);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let workers = Workers::new(3).unwrap();
        let costs: Vec<u64> = (0..50).map(|i| i * 37 % 11).collect();
        let results = workers.run(&costs, Ok);
        assert_eq!(results.unwrap(), (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_error_by_item_ends_the_run() {
        let workers = Workers::new(2).unwrap();
        let result = workers.run(&[1; 8], |index| match index {
            3 | 5 => Err(ModelError::Loss(format!("item {index}").into())),
            _ => Ok(()),
        });
        assert_eq!(result.unwrap_err().to_string(), "item 3");
    }

    #[test]
    fn workers_share_the_cost_evenly() {
        let costs: Vec<u64> = (1..=40).collect();
        let load: Vec<u64> = assign(&costs, 2).iter().map(|share| share.iter().map(|&i| costs[i]).sum()).collect();
        assert!(load[0].abs_diff(load[1]) <= 1, "{load:?}");
    }
}
