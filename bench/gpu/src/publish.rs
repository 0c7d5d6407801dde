//! Weights published to a reader that waits, beside the plain work: the same files digested and written out of memory
//! by as many threads.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use candle_core::{DType, Device, Tensor};
use evenkeel_host::{DigestWriter, free_space};
use evenkeel_learner::{ComputeType, Learner, PublishOptions, TrainingSettings};
use evenkeel_model::{Config, Parameters, parameter_specs};
use serde_json::json;

use crate::report::ReportPart;
use crate::shapes::{cases, random};

/// On a GPU, seconds until weights of Qwen3-1.7B are published, and until a reader has them.
const PUBLISHED: f64 = 2.0;
const READ: f64 = 3.0;
/// On a host alone, where conversion to bf16 is the host's work too: by the plain work, in processor time, which other
/// processes do not lengthen.
const PLAIN: f64 = 1.8;
/// Files that the learner writes at the same time, at most.
const WRITERS: usize = 8;
/// Each side, in turn; the fastest counts.
const ROUNDS: usize = 2;
const MEMORY_DISK: &str = "/dev/shm";
/// Bytes that the learner digests and writes at once.
const PIECE: usize = 2 << 20;

/// From a device, with limits on a GPU.
pub(crate) fn from_device(part: &mut ReportPart<'_>, device: &Device) -> Result<()> {
    let [case, ..] = cases();
    let case = case.on(device)?;
    let mut settings = TrainingSettings::default();
    settings.compute.device = if device.is_cuda() { "cuda".into() } else { "cpu".into() };
    settings.compute.dtype = if device.is_cuda() { ComputeType::Bf16 } else { ComputeType::F32 };
    let learner = Learner::new(case.config.clone(), random(&case.config, device)?, settings)?;
    let times = measure(part, case.name, &learner)?;
    if !device.is_cuda() {
        return Ok(());
    }
    if times.on_memory_disk {
        part.check("seconds until weights are published", times.published, PUBLISHED);
        part.check("seconds until a reader has them", times.read, READ);
    } else {
        part.skip("/dev/shm has no room, and the limits are those of a memory disk");
    }
    Ok(())
}

/// From the host's memory, at full size: what a GPU's host has to do, and the conversion, which is a GPU's otherwise.
pub(crate) fn from_host(part: &mut ReportPart<'_>) -> Result<()> {
    let [case, ..] = cases();
    let parameters = shared(&case.config)?;
    let learner = Learner::new(case.config.clone(), parameters, TrainingSettings::default())?;
    let times = measure(part, case.name, &learner)?;
    part.check(
        "processor time until weights are published, by that of the plain work",
        times.work / times.plain,
        PLAIN,
    );
    Ok(())
}

/// Parameters that share one array: publishing only reads them.
fn shared(config: &Config) -> Result<Parameters> {
    let shapes: Vec<Vec<usize>> = parameter_specs(config).0.into_iter().map(|spec| spec.shape).collect();
    let count = |shape: &[usize]| shape.iter().product::<usize>();
    let most = shapes.iter().map(|shape| count(shape)).max().unwrap_or(0);
    let values: Vec<f32> = (0..most).map(|at| (at % 65_521) as f32 * 1e-6).collect();
    let all = Tensor::from_vec(values, most, &Device::Cpu)?;
    let views = shapes.iter().map(|shape| all.narrow(0, 0, count(shape))?.reshape(shape.as_slice()));
    Ok(Parameters::new(config, views.collect::<candle_core::Result<_>>()?, &Device::Cpu)?)
}

struct Times {
    published: f64,
    read: f64,
    /// Processor time to publish.
    work: f64,
    /// Processor time to digest and write the same files out of memory.
    plain: f64,
    on_memory_disk: bool,
}

fn measure(part: &mut ReportPart<'_>, model: &str, learner: &Learner) -> Result<Times> {
    let options = PublishOptions::for_engines(DType::BF16);
    let needed = 2 * learner.parameters().count() as u64;
    let scratch = part.scratch()?;
    let folder = place(needed, scratch.path())?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let [mut published, mut read, mut work, mut plain] = [f64::INFINITY; 4];
    let mut files = Vec::new();
    let mut threads = 0;
    for _ in 0..ROUNDS {
        let seconds: [f64; 3];
        (seconds, files) = to_reader(learner, folder.path(), options)?;
        fs::remove_dir_all(folder.path().join(format!("step-{}", learner.version())))?;
        threads = processors.min(WRITERS).min(files.len());
        (published, read, work) = (published.min(seconds[0]), read.min(seconds[1]), work.min(seconds[2]));
        plain = plain.min(in_threads(folder.path(), &files, threads, &digested_and_written)?);
    }
    let bytes: u64 = files.iter().sum();
    // One file on one thread: what a processor does.
    let one = [files.iter().copied().max().unwrap_or(0)];
    let rate = |work: &Work<'_>| Ok::<_, anyhow::Error>(one[0] as f64 / in_threads(folder.path(), &one, 1, work)?);
    let digests = rate(&digested)?;
    let writes = rate(&written)?;
    let busy = bytes as f64 * (1.0 / digests + 1.0 / writes);
    part.fact(json!({
        "what": "publish", "model": model, "folder": folder.path().display().to_string(), "bytes": bytes, "files": files.len(),
        "largest_file": one[0], "published_seconds": published, "read_seconds": read, "threads": threads,
        "published_processor_seconds": work, "plain_processor_seconds": plain,
        "digested_bytes_per_second": digests, "written_bytes_per_second": writes, "digesting_and_writing_processor_seconds": busy,
        "processors_for_2_s": (busy / PUBLISHED).ceil(),
    }));
    Ok(Times { published, read, work, plain, on_memory_disk: folder.path().starts_with(MEMORY_DISK) })
}

/// A folder that is removed with its guard.
struct Folder(PathBuf);

impl Folder {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // On a memory disk it would keep memory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// On a memory disk if it has room for the published files and the plain ones beside them, else in the folder of
/// results.
fn place(bytes: u64, otherwise: &Path) -> Result<Folder> {
    let memory = Path::new(MEMORY_DISK);
    let has_room = memory.is_dir() && free_space(memory).is_ok_and(|space| space.free > bytes + bytes / 2);
    let parent = if has_room { memory } else { otherwise };
    let folder = parent.join(format!("evenkeel-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(Folder(folder))
}

/// Seconds until the weights are published, until a reader that waited has read them, and of processors until they are
/// published; and the sizes of their files.
fn to_reader(learner: &Learner, folder: &Path, options: PublishOptions) -> Result<([f64; 3], Vec<u64>)> {
    let target = folder.join(format!("step-{}", learner.version()));
    let began = Instant::now();
    let worked = processor_seconds()?;
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| wait_and_read(&target, &failed));
        let published = learner.publish(folder, options).map(|_| began.elapsed());
        let work = processor_seconds()? - worked;
        failed.store(published.is_err(), Ordering::Relaxed);
        let read = reader.join().map_err(|_| anyhow!("the reader panicked"))?;
        Ok(([published?.as_secs_f64(), began.elapsed().as_secs_f64(), work], read?))
    })
}

/// Reads every file of a folder as soon as it exists, through a buffer, as an engine hands weights on to its device.
/// Returns the sizes of the files of weights.
fn wait_and_read(folder: &Path, failed: &AtomicBool) -> Result<Vec<u64>> {
    while !folder.exists() {
        if failed.load(Ordering::Relaxed) {
            bail!("{} was not published", folder.display());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut sizes = Vec::new();
    let mut buffer = vec![0; 8 * PIECE];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let bytes = read(&mut File::open(&path)?, &mut buffer)?;
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            sizes.push(bytes);
        }
    }
    Ok(sizes)
}

fn read(file: &mut impl std::io::Read, buffer: &mut [u8]) -> Result<u64> {
    let mut bytes = 0;
    loop {
        match file.read(buffer)? {
            0 => return Ok(bytes),
            count => bytes += std::hint::black_box(&buffer[..count]).len() as u64,
        }
    }
}

/// What is done with a file's bytes, all of which are the same piece.
type Work<'a> = dyn Fn(&Path, u64, &[u8]) -> Result<()> + Sync + 'a;

fn digested_and_written(path: &Path, bytes: u64, piece: &[u8]) -> Result<()> {
    drop(std::hint::black_box(fill(DigestWriter::new(File::create(path)?), bytes, piece)?.finish()));
    Ok(())
}

fn digested(_: &Path, bytes: u64, piece: &[u8]) -> Result<()> {
    drop(std::hint::black_box(fill(DigestWriter::new(std::io::sink()), bytes, piece)?.finish()));
    Ok(())
}

fn written(path: &Path, bytes: u64, piece: &[u8]) -> Result<()> {
    fill(File::create(path)?, bytes, piece).map(drop)
}

fn fill<W: Write>(mut to: W, bytes: u64, piece: &[u8]) -> Result<W> {
    let mut left = bytes;
    while left > 0 {
        let count = left.min(piece.len() as u64);
        to.write_all(&piece[..count as usize])?;
        left -= count;
    }
    Ok(to)
}

/// What this process has had of processors, in seconds.
fn processor_seconds() -> Result<f64> {
    /// Ticks of a second, in which the system counts.
    const TICKS: f64 = 100.0;
    let text = fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which may hold anything: its own time and the system's on its behalf are the 12th and 13th.
    let numbers = text.rsplit_once(')').context("the system says nothing of this process")?.1;
    let ticks = numbers.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / TICKS)
}

/// Seconds of processors for all files, which are removed afterwards.
fn in_threads(folder: &Path, files: &[u64], threads: usize, work: &Work<'_>) -> Result<f64> {
    let piece = vec![7; PIECE];
    let next = AtomicUsize::new(0);
    let path = |number: usize| folder.join(format!("plain-{number}"));
    let began = processor_seconds()?;
    std::thread::scope(|scope| {
        let worker = || -> Result<()> {
            while let number = next.fetch_add(1, Ordering::Relaxed)
                && let Some(&bytes) = files.get(number)
            {
                work(&path(number), bytes, &piece)?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a thread panicked"))?)
    })?;
    // An interval below one tick cannot be measured: no rate is taken over less.
    let seconds = (processor_seconds()? - began).max(1e-3);
    (0..files.len()).map(path).filter(|path| path.exists()).try_for_each(fs::remove_file)?;
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::tiny;

    #[test]
    fn parameters_of_the_full_shape_share_the_array_of_the_largest() {
        let [case, ..] = cases();
        let config = tiny(&case.config);
        let parameters = shared(&config).unwrap();
        let values: Vec<Vec<f32>> =
            parameters.values().iter().map(|value| value.flatten_all().unwrap().to_vec1().unwrap()).collect();
        let longest = values.iter().max_by_key(|values| values.len()).unwrap();
        assert!(values.iter().all(|values| longest.starts_with(values)));
    }

    #[test]
    fn plain_files_have_their_sizes_and_are_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let seen = std::sync::Mutex::new(Vec::new());
        let watched = |path: &Path, bytes: u64, piece: &[u8]| -> Result<()> {
            written(path, bytes, piece)?;
            seen.lock().unwrap().push(fs::metadata(path)?.len());
            digested_and_written(path, bytes, piece)?;
            digested(path, bytes, piece)
        };
        let sizes = [3, PIECE as u64 + 1, 0];
        assert!(in_threads(folder.path(), &sizes, 2, &watched).unwrap() > 0.0);
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, [0, 3, PIECE as u64 + 1]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
