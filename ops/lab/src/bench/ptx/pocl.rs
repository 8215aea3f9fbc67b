//! PoCL's side of the suite, in a process of its own. PoCL reads its number of threads from the
//! environment, and a crash of its compiler must not end the benchmark.

use std::process::Command;

use admin::output;
use anyhow::{Context, Result, anyhow, bail};
use workloads::suite::{CASES, Case};

use super::opencl::{Buffers, Kernel, OpenCl};
use super::peer::{Peer, difference, fastest};

/// Argument of `warploom bench` that starts that process.
pub(in crate::bench) const PROCESS: &str = ".pocl";

/// Starts it with as many threads as we use, and without the cache of built kernels.
///
/// # Errors
/// If PoCL is not installed.
pub(super) fn start(threads: usize) -> Result<(Peer, String)> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["bench", PROCESS])
        .env("POCL_MAX_PTHREAD_COUNT", threads.to_string())
        .env("POCL_DEVICES", "pthread")
        .env("POCL_KERNEL_CACHE", "0");
    let mut peer = Peer::start(command)?;
    let version = peer.ask("version", "");
    let version = version.context("PoCL; on Debian: apt install pocl-opencl-icd")?;
    Ok((peer, version))
}

/// Answers until the input ends.
///
/// # Errors
/// If input or output fail.
pub(in crate::bench) fn serve() -> Result<()> {
    let opencl = OpenCl::open();
    let mut loaded: Vec<Option<(Buffers<'_>, Kernel<'_>)>> = CASES.iter().map(|_| None).collect();
    for line in std::io::stdin().lines() {
        let line = line?;
        let (what, about) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = match &opencl {
            Ok(opencl) => answer(opencl, &mut loaded, what, about),
            Err(error) => Err(anyhow!("{error:#}")),
        };
        match answer {
            Ok(answer) => output::line(format_args!("ok {answer}"))?,
            Err(error) => {
                let error = format!("{error:#}").replace('\n', " ");
                output::line(format_args!("error {error}"))?;
            }
        }
    }
    Ok(())
}

fn answer<'c>(
    opencl: &'c OpenCl,
    loaded: &mut [Option<(Buffers<'c>, Kernel<'c>)>],
    what: &str,
    about: &str,
) -> Result<String> {
    if what == "version" {
        return Ok(opencl.version.clone());
    }
    let index = CASES.iter().position(|case| case.name == about);
    let index = index.with_context(|| format!("no kernel {about:?}"))?;
    let case = &CASES[index];
    if what == "check" {
        return check(opencl, &mut loaded[index], case);
    }
    let (buffers, kernel) = loaded[index].as_ref().context("not checked before")?;
    let ns = if what == "first" {
        let began = std::time::Instant::now();
        let kernel = opencl.build(case)?;
        kernel.bind(case, buffers)?;
        kernel.launch([1; 3], case.block)?;
        began.elapsed().as_secs_f64() * 1e9
    } else {
        fastest(|| kernel.launch(case.grid, case.block))?
    };
    Ok(ns.to_string())
}

fn check<'c>(
    opencl: &'c OpenCl,
    loaded: &mut Option<(Buffers<'c>, Kernel<'c>)>,
    case: &Case,
) -> Result<String> {
    let input = case.input();
    let kernel = opencl.build(case)?;
    let buffers = opencl.buffers(&input)?;
    kernel.bind(case, &buffers)?;
    kernel.launch(case.grid, case.block)?;
    let actual = input[case.output].with_bytes(&buffers.read(case.output)?);
    if let Some(wrong) = difference(case, input, &actual) {
        bail!("PoCL's result is wrong: {wrong}");
    }
    *loaded = Some((buffers, kernel));
    Ok("right".to_owned())
}
