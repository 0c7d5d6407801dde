//! With the feature `images`: compiles the kernels by nvcc, for each architecture to machine code, and once to PTX for
//! those of the future.
//!
//! nvcc is the one in `NVCC`, in `CUDA_HOME`, or on the path. What was compiled before by the same compiler from the
//! same text is kept. What the assembler says of a kernel (registers, spills) lies beside it in a `.log` file, which
//! `.ci/kernel_usage.py` reads.
#![allow(clippy::print_stdout, reason = "this is how a build script speaks to cargo")]

use std::collections::VecDeque;
use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

/// Architectures with machine code of their own, as in `src/image.rs`.
const ARCHITECTURES: [u32; 4] = [80, 90, 100, 120];
/// What the PTX is for: this and every later one.
const PTX: u32 = 80;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=source");
    println!("cargo::rerun-if-env-changed=NVCC");
    println!("cargo::rerun-if-env-changed=CUDA_HOME");
    if env::var_os("CARGO_FEATURE_IMAGES").is_none() {
        return Ok(());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let nvcc = Nvcc::find()?;
    let mut names = Vec::new();
    for entry in fs::read_dir("source")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "cu") {
            names.push(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    names.sort();
    let mut images: VecDeque<Image> = VecDeque::new();
    for name in &names {
        images.extend(ARCHITECTURES.map(|architecture| Image { name: name.clone(), architecture, ptx: false }));
        images.push_back(Image { name: name.clone(), architecture: PTX, ptx: true });
    }
    compile_all(&nvcc, &out, images)?;
    fs::write(out.join("images.rs"), table(&names, &nvcc))?;
    Ok(())
}

/// The compiler, with what it says of itself.
struct Nvcc {
    program: OsString,
    version: String,
    /// CUDA version of the compiler: 13000 for 13.0.
    cuda: u32,
}

impl Nvcc {
    fn find() -> Result<Self, Failure> {
        let home = || env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("bin/nvcc").into_os_string());
        let program = env::var_os("NVCC").or_else(home).unwrap_or_else(|| "nvcc".into());
        let output = Command::new(&program).arg("--version").output();
        let output = output.map_err(|error| format!("{}: {error}; see docs/gpu.md", program.display()))?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        let cuda = version.split_once("release ").and_then(|(_, rest)| {
            let (major, rest) = rest.split_once('.')?;
            let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
            Some(1000 * major.parse::<u32>().ok()? + 10 * minor.parse::<u32>().ok()?)
        });
        let cuda = cuda.ok_or_else(|| format!("{} --version names no release: {version}", program.display()))?;
        Ok(Self { program, version, cuda })
    }

    /// Everything that the compiler's output depends on.
    fn key(&self, image: &Image) -> Result<String, Failure> {
        let read = |file: &str| fs::read_to_string(Path::new("source").join(file));
        let text = read(&format!("{}.cu", image.name))?;
        Ok(format!("{}\n{:?}\n{}\n{text}", self.version, image.arguments(), read("common.cuh")?))
    }
}

/// A file of kernels, compiled for an architecture.
struct Image {
    name: String,
    architecture: u32,
    ptx: bool,
}

impl Image {
    fn file(&self) -> String {
        if self.ptx { format!("{}.ptx", self.name) } else { format!("{}.sm_{}.cubin", self.name, self.architecture) }
    }

    fn arguments(&self) -> Vec<String> {
        let (form, kind) = if self.ptx { ("-ptx", "compute") } else { ("-cubin", "sm") };
        let architecture = format!("-arch={kind}_{}", self.architecture);
        ["-std=c++17", form, &architecture, "--fmad=false", "-Xptxas", "-v"].map(str::to_owned).into()
    }
}

fn compile_all(nvcc: &Nvcc, out: &Path, images: VecDeque<Image>) -> Result<(), Failure> {
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let queue = Mutex::new(images);
    let next = || queue.lock().ok().and_then(|mut queue| queue.pop_front());
    thread::scope(|scope| {
        let worker = || -> Result<(), Failure> {
            while let Some(image) = next() {
                compile(nvcc, out, &image)?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a compiling thread panicked")?)
    })
}

fn compile(nvcc: &Nvcc, out: &Path, image: &Image) -> Result<(), Failure> {
    let file = out.join(image.file());
    let key = nvcc.key(image)?;
    let key_file = file.with_added_extension("key");
    let log_file = file.with_added_extension("log");
    if file.exists() && fs::read_to_string(&key_file).is_ok_and(|found| found == key) {
        return Ok(());
    }
    let source = Path::new("source").join(format!("{}.cu", image.name));
    let mut command = Command::new(&nvcc.program);
    command.args(image.arguments()).arg("-o").arg(&file).arg(&source);
    let output = command.output()?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{}: {log}", source.display()).into());
    }
    fs::write(&log_file, &*log)?;
    Ok(fs::write(&key_file, key)?)
}

/// The constants that `src/image.rs` includes.
fn table(names: &[String], nvcc: &Nvcc) -> String {
    let mut text = format!("const CUDA: u32 = {};\nconst FILES: [File; {}] = [\n", nvcc.cuda, names.len());
    for name in names {
        let machine_code = ARCHITECTURES.map(|architecture| {
            format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.sm_{architecture}.cubin\"))")
        });
        let ptx = format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.ptx\"))");
        let machine_code = machine_code.join(", ");
        let _ = writeln!(text, "    File {{ name: \"{name}.cu\", machine_code: [{machine_code}], ptx: {ptx} }},");
    }
    text + "];\n"
}
