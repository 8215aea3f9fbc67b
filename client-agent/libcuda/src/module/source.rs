//! The source of a library's PTX, and the report where there is none.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;

use crate::fatbin::Entry;
use crate::lock::lock;
use crate::status::{Status, note};

/// What the PTX of a library is made of.
pub(crate) enum Source {
    Text(Box<[u8]>),
    /// Of a fatbin: unpacked when it is wanted.
    Packed(Entry<'static>),
    /// Of several fatbins: unpacked and linked when it is wanted.
    Parts(Vec<Entry<'static>>),
    /// There is none.
    MachineCode(Missing),
}

/// Why there is no PTX.
#[derive(Debug)]
pub(crate) struct Missing {
    /// What there is instead.
    pub(crate) has: String,
    /// The file that it came from.
    pub(crate) origin: Option<String>,
}

/// A status with its reason.
pub(crate) type Wrong = (Status, String);

impl Source {
    /// The text.
    pub(super) fn text(&self) -> Result<Vec<u8>, Wrong> {
        let unpacked = |entry: &Entry<'_>| {
            let text = entry.text();
            text.map_err(|refusal| (Status::INVALID_IMAGE, refusal.to_string()))
        };
        match self {
            Self::Text(text) => Ok(text.to_vec()),
            Self::Packed(entry) => unpacked(entry),
            Self::Parts(entries) => {
                let texts = entries.iter().map(unpacked);
                let texts = texts.collect::<Result<Vec<_>, _>>()?;
                let images = texts.iter().map(|image| ptx::LinkImage {
                    name: "a part of the program",
                    image,
                });
                let linked = ptx::link(&images.collect::<Vec<_>>());
                let linked = linked.map_err(|error| unlinked(&error.to_string()))?;
                Ok(linked.into_bytes())
            }
            Self::MachineCode(missing) => Err((Status::NO_BINARY_FOR_GPU, missing.has.clone())),
        }
    }
}

/// Functions of the device runtime by which kernels launch kernels.
const LAUNCHERS: [&str; 3] = [
    "cudaLaunchDevice",
    "cudaGetParameterBuffer",
    "cudaDeviceSynchronize",
];

/// Why parts of a program are not linked; written to stderr under `warploom run`, for the runtime has no
/// words of its own for it.
fn unlinked(error: &str) -> Wrong {
    let text = match LAUNCHERS.iter().any(|name| error.contains(name)) {
        true => "the program launches kernels from kernels (dynamic parallelism), which is not \
                 supported"
            .to_owned(),
        false => format!("the program's device code cannot be linked: {error}"),
    };
    if std::env::var_os("WARPLOOM_SESSIONS").is_some() {
        // Nobody may be listening.
        let _ = writeln!(std::io::stderr(), "warploom: {text}");
    }
    (Status::NOT_SUPPORTED, text)
}

/// What was asked for of images without PTX: kernels, by the file that has them.
static REFUSED: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// What was said of the last one.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Most files that are counted apart.
const FILES: usize = 256;

impl Missing {
    /// A kernel was asked for: says so, once in the program's life under `warploom run`.
    pub(super) fn asked_for(&self, kernel: &str) -> Wrong {
        let file = self.origin.as_deref().unwrap_or("memory");
        let text = format!(
            "{kernel} of {file} has no PTX: {}; a worker without a GPU runs PTX only, so build it with \
             `-gencode arch=compute_80,code=compute_80`, or use a cluster whose workers have GPUs",
            self.has
        );
        let mut refused = lock(&REFUSED);
        let first = refused.is_empty();
        if refused.len() < FILES || refused.contains_key(file) {
            *refused.entry(file.to_owned()).or_default() += 1;
        }
        drop(refused);
        if first && std::env::var_os("WARPLOOM_SESSIONS").is_some() {
            // Nobody may be listening.
            let _ = writeln!(std::io::stderr(), "warploom: {text}");
        }
        lock(&LAST).clone_from(&text);
        note(Status::NO_BINARY_FOR_GPU, text.clone());
        (Status::NO_BINARY_FOR_GPU, text)
    }
}

/// What was refused: kernels by file.
pub(crate) fn refusals() -> Vec<(String, u64)> {
    let refused = lock(&REFUSED);
    refused
        .iter()
        .map(|(file, count)| (file.clone(), *count))
        .collect()
}

/// How many kernels were refused, and what was said of the last one.
pub(crate) fn last_refusal() -> (u64, String) {
    let count = lock(&REFUSED).values().sum();
    (count, lock(&LAST).clone())
}

/// What was refused, for `--stats`; empty where nothing was.
pub(crate) fn refused() -> String {
    let refused = lock(&REFUSED);
    let rows: Vec<_> = refused
        .iter()
        .map(|(file, count)| format!("{count} of {file}"))
        .collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("; kernels without PTX: {}", rows.join(", ")),
    }
}
