//! `warploom submit`: runs one kernel of a PTX file and prints the results.

mod args;
mod argument;

use std::path::PathBuf;
use std::time::Instant;

use crate::client_settings::client_settings_of;
use admin::block_on;
use admin::credentials::credentials;
use admin::errors::{ErrorCode, UsageError};
use admin::output;
use admin::settings::Settings;
use anyhow::{Context, Result, bail};
use client_agent::{Client, Session};

use crate::commands::made_tenant::prepare;
pub use args::SubmitArgs;
use argument::{Argument, Element, pack};

/// A buffer to show after the run.
struct Output {
    argument: usize,
    file: Option<PathBuf>,
}

impl Output {
    fn parse(text: &str) -> Result<Self> {
        let (number, file) = match text.split_once(':') {
            Some((number, file)) => (number, Some(file.into())),
            None => (text, None),
        };
        let argument = number.parse().ok();
        let argument =
            argument.with_context(|| UsageError(format!("--out {text:?} is no N[:FILE]")))?;
        Ok(Self { argument, file })
    }
}

/// Runs the kernel.
///
/// # Errors
/// [`UsageError`] for invalid arguments; the device's error otherwise.
pub fn submit(args: &SubmitArgs, settings: &Settings, json: bool) -> Result<()> {
    let arguments = Argument::all(&args.args)?;
    let outputs = outputs(args, &arguments)?;
    let image = std::fs::read(&args.ptx)
        .with_context(|| UsageError(format!("cannot read {}", args.ptx.display())))?;
    let mut credentials = credentials(settings)?;
    block_on(prepare(&args.tenant, None, settings, &mut credentials))?;
    let joined = client_settings_of(&credentials, settings, args.tenant.as_str())?;
    let client = Client::connect(joined).map_err(|error| unreachable_or(error, settings))?;
    if args.devices > 1 && outputs.iter().any(|output| output.file.is_some()) {
        bail!(UsageError(
            "the devices would all write --out's one file".into()
        ));
    }
    let sessions = client.open_devices(args.devices)?;
    for (device, session) in sessions.iter().enumerate() {
        let begun = Instant::now();
        let ran = run(args, session, &image, &arguments);
        let took = begun.elapsed();
        // The kernel's output often explains its failure.
        print(&session.take_printed(), json)?;
        let buffers = ran?;
        let device = (args.devices > 1).then_some(device);
        for output in &outputs {
            show(output, device, session, &buffers[output.argument], json)?;
        }
        if !json {
            let (entry, gpu) = (&args.entry, session.opened().gpu);
            output::note(format_args!("{entry} ran on gpu {gpu} in {took:.1?}"));
        }
    }
    for session in sessions {
        session.close()?;
    }
    Ok(())
}

/// Converts a client's error: without a leader it is the same error as an administrator's.
fn unreachable_or(error: client_agent::Error, settings: &Settings) -> anyhow::Error {
    if error.code() == bus_schemas::Code::NoLeader {
        let name = settings.text("cluster.name");
        return admin::errors::Unreachable(format!("cluster {name}: {error}")).into();
    }
    error.into()
}

fn outputs(args: &SubmitArgs, arguments: &[Argument]) -> Result<Vec<Output>> {
    let is_buffer = |index: usize| matches!(arguments.get(index), Some(Argument::Buffer(..)));
    if args.out.is_empty() {
        let buffers = (0..arguments.len()).filter(|index| is_buffer(*index));
        return Ok(buffers
            .map(|argument| Output {
                argument,
                file: None,
            })
            .collect());
    }
    let outputs: Result<Vec<_>> = args.out.iter().map(|text| Output::parse(text)).collect();
    let outputs = outputs?;
    if let Some(wrong) = outputs.iter().find(|output| !is_buffer(output.argument)) {
        bail!(UsageError(format!(
            "argument {} is no buffer",
            wrong.argument
        )));
    }
    Ok(outputs)
}

/// A buffer on the device.
struct Buffer {
    element: Element,
    address: u64,
    bytes: usize,
}

/// Launches and waits; returns the buffers by argument, `None` for scalars.
fn run(
    args: &SubmitArgs,
    session: &Session,
    image: &[u8],
    arguments: &[Argument],
) -> Result<Vec<Option<Buffer>>> {
    let module = session.load(image)?;
    let function = module.function(&args.entry)?;
    let mut buffers = Vec::new();
    for argument in arguments {
        buffers.push(match argument {
            Argument::Scalar(_) => None,
            Argument::Buffer(element, contents) => {
                let address = session.alloc(contents.len().max(1) as u64)?;
                session.copy_in(address, contents)?;
                Some(Buffer {
                    element: *element,
                    address,
                    bytes: contents.len(),
                })
            }
        });
    }
    let addresses: Vec<u64> = buffers
        .iter()
        .flatten()
        .map(|buffer| buffer.address)
        .collect();
    let params = pack(arguments, &addresses);
    for _ in 0..args.repeat {
        session.launch(&function, args.grid, args.block, args.shared, &params)?;
    }
    session.sync()?;
    Ok(buffers)
}

/// Prints the kernel's output unchanged; with JSON, as text.
fn print(printed: &[u8], json: bool) -> Result<()> {
    if printed.is_empty() {
        return Ok(());
    }
    if json {
        let text = String::from_utf8_lossy(printed);
        return output::line(serde_json::json!({ "printed": text }));
    }
    output::bytes(printed)
}

fn show(
    output: &Output,
    device: Option<usize>,
    session: &Session,
    buffer: &Option<Buffer>,
    json: bool,
) -> Result<()> {
    let Some(buffer) = buffer else { return Ok(()) };
    let mut contents = vec![0; buffer.bytes];
    session.copy_out(buffer.address, &mut contents)?;
    let argument = output.argument;
    if let Some(file) = &output.file {
        std::fs::write(file, &contents).with_context(|| {
            ErrorCode::SubmitFile.failed(format!("cannot write {}", file.display()))
        })?;
    }
    let values = buffer.element.show(&contents);
    match &output.file {
        Some(file) if json => {
            let file = file.display().to_string();
            output::line(serde_json::json!({"argument": argument, "file": file}))
        }
        Some(file) => {
            let (bytes, file) = (contents.len(), file.display());
            output::line(format_args!("{argument}: {bytes} bytes to {file}"))
        }
        None if json => {
            let values: Vec<_> = values.split(' ').map(number).collect();
            let mut line = serde_json::json!({"argument": argument, "values": values});
            if let Some(device) = device {
                line["device"] = device.into();
            }
            output::line(line)
        }
        None => match device {
            Some(device) => output::line(format_args!("device {device}: {argument}: {values}")),
            None => output::line(format_args!("{argument}: {values}")),
        },
    }
}

/// A value as a JSON number; NaN and infinity stay text.
fn number(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}
