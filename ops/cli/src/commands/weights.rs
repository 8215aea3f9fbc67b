//! `warploom weights`: weights that the cluster keeps, so that programs need not send them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use admin::Administrator;
use admin::calendar;
use admin::completion;
use admin::output;
use admin::settings::Settings;
use admin::table::size;
use admin::table::{fitted, headed};
use anyhow::{Context, Result, anyhow, bail};
use bus_schemas::limits::{CONTENT_BYTES, OFFER_BYTES};
use bus_schemas::{ContentHash, Tenant};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use storage::{StoredWeights, TensorChunks, WeightsError, WeightsStore};
use tokio::io::{AsyncRead, ReadBuf};

use crate::weights::{FileTensor, WeightsFileError, tensors};
use admin::errors::{ErrorCode, Unreachable};

/// `warploom weights`.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  warploom weights add llama model-00001.safetensors model-00002.safetensors --tenant chat
  warploom weights add tiny tiny.Q4_0.gguf --public
  warploom weights list
  warploom weights remove llama")]
pub enum WeightsCommand {
    /// Adds files of weights under a name, or publishes a name to more tenants
    Add(AddArgs),
    /// Lists the kept weights
    #[command(after_help = "\
Examples:
  warploom weights list
  warploom weights list --json")]
    List,
    /// Removes the weights of a name, with leftovers of an interrupted `add`
    #[command(after_help = "\
Examples:
  warploom weights remove llama")]
    Remove {
        /// The name
        #[arg(add = completion::weights())]
        name: Name,
    },
}

/// `warploom weights add`.
#[derive(Debug, Args)]
#[command(after_help = "\
Copies of at least 256 KiB that begin with a tensor are answered from it: smaller tensors are left out.

Examples:
  warploom weights add llama model-*.safetensors --tenant chat --tenant search
  warploom weights add tiny tiny.Q4_0.gguf --public")]
pub struct AddArgs {
    /// The name: 1 to 64 of a-z, 0-9, '-', '_' and '.', beginning with a letter or digit
    #[arg(add = completion::weights())]
    pub name: Name,
    /// Safetensors or GGUF files; all files of the model
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A tenant that may copy from these weights without sending them; may be repeated
    #[arg(
        long = "tenant",
        value_name = "TENANT",
        required_unless_present = "public",
        add = completion::tenants()
    )]
    pub tenants: Vec<Tenant>,
    /// Publishes the weights to all tenants
    #[arg(long, conflicts_with = "tenants")]
    pub public: bool,
}

/// A name of published weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl std::str::FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut bytes = text.bytes();
        let first = bytes
            .next()
            .is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
        let rest =
            bytes.all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-_.".contains(&it));
        match first && rest && text.len() <= 64 {
            true => Ok(Self(text.to_owned())),
            false => Err(
                "a name is 1 to 64 of a-z, 0-9, '-', '_' and '.', beginning with a letter or digit"
                    .into(),
            ),
        }
    }
}

/// Runs a weights command.
///
/// # Errors
/// [`admin::errors::UsageError`] if the name has no weights; [`Unreachable`] without a cluster; the
/// fault of a file.
pub async fn weights(command: &WeightsCommand, settings: &Settings, json: bool) -> Result<()> {
    match command {
        WeightsCommand::Add(args) => add(args, settings, json).await,
        WeightsCommand::List => list(&Administrator::of(settings).await?, json).await,
        WeightsCommand::Remove { name } => {
            remove(&Administrator::of(settings).await?, name, json).await
        }
    }
}

/// Converts an error of the store for a command.
fn stored(error: WeightsError) -> anyhow::Error {
    match error {
        WeightsError::Full => anyhow!(ErrorCode::WeightsFull.failed(
            "the store of weights has no room for it: remove some (`warploom weights remove`), or \
             allow more: `warploom --set weights.max_bytes=SIZE weights add …`"
        )),
        WeightsError::Broker(why) => {
            anyhow!(Unreachable(format!(
                "the broker's JetStream does not answer ({why})"
            )))
        }
        WeightsError::Source(why) => anyhow!(ErrorCode::WeightsFile.failed(&why)),
        error @ WeightsError::Unreadable(..) => anyhow!(ErrorCode::WeightsStore.failed(&error)),
    }
}

/// The tensors of all files that are large enough to be offered.
fn read(files: &[PathBuf]) -> Result<Vec<FileTensor>> {
    let (mut all, mut names) = (Vec::new(), BTreeSet::new());
    for file in files {
        let tensors = tensors(file).map_err(|error| match &error {
            WeightsFileError::Io { error: io, .. } if io.kind() == ErrorKind::NotFound => {
                ErrorCode::WeightsFile.usage(error)
            }
            _ => ErrorCode::WeightsFile.failed(error),
        });
        for tensor in tensors? {
            if !names.insert(tensor.name.clone()) {
                bail!(ErrorCode::WeightsFile.failed(format!(
                    "{} has tensor {} again",
                    file.display(),
                    tensor.name
                )));
            }
            all.push(tensor);
        }
    }
    all.retain(|tensor| tensor.bytes >= OFFER_BYTES);
    if all.is_empty() {
        bail!(
            ErrorCode::WeightsFile
                .failed("no tensor has 256 KiB or more: there is nothing worth keeping")
        );
    }
    Ok(all)
}

fn bar(bytes: u64, what: &'static str) -> Result<ProgressBar> {
    let bar = ProgressBar::new(bytes).with_message(what);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}")?;
    Ok(bar.with_style(style))
}

/// The hashes of a tensor's chunks.
fn hashes(tensor: &FileTensor, bar: &ProgressBar) -> Result<TensorChunks> {
    let file = File::open(&tensor.path).with_context(|| tensor.path.display().to_string())?;
    let (mut hashes, mut chunk, mut done) = (Vec::new(), vec![0; CONTENT_BYTES], 0);
    while done < tensor.bytes {
        let bytes = (tensor.bytes - done).min(CONTENT_BYTES as u64) as usize;
        let chunk = &mut chunk[..bytes];
        let read = file.read_exact_at(chunk, tensor.offset + done);
        read.with_context(|| tensor.path.display().to_string())?;
        hashes.extend(ContentHash::of([&*chunk]).0);
        done += bytes as u64;
        bar.inc(bytes as u64);
    }
    Ok(TensorChunks {
        name: tensor.name.clone(),
        bytes: tensor.bytes,
        hashes,
    })
}

/// The bytes of a tensor as they are sent.
struct Part<'a> {
    file: File,
    at: u64,
    left: u64,
    bar: &'a ProgressBar,
}

impl<'a> Part<'a> {
    fn open(tensor: &FileTensor, bar: &'a ProgressBar) -> Result<Self> {
        let file = File::open(&tensor.path).with_context(|| tensor.path.display().to_string())?;
        Ok(Self {
            file,
            at: tensor.offset,
            left: tensor.bytes,
            bar,
        })
    }
}

impl AsyncRead for Part<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let part = self.get_mut();
        let most = usize::try_from(part.left)
            .unwrap_or(usize::MAX)
            .min(to.remaining());
        // A read of the file returns almost at once, and this command has nothing else to do.
        let read = part
            .file
            .read_at(to.initialize_unfilled_to(most), part.at)?;
        if read == 0 && most > 0 {
            return Poll::Ready(Err(std::io::ErrorKind::UnexpectedEof.into()));
        }
        to.advance(read);
        part.at += read as u64;
        part.left -= read as u64;
        part.bar.inc(read as u64);
        Poll::Ready(Ok(()))
    }
}

async fn add(args: &AddArgs, settings: &Settings, json: bool) -> Result<()> {
    let found = read(&args.files)?;
    let most = settings.bytes("weights.max_bytes")?;
    let administrator = Administrator::of(settings).await?;
    known(&administrator, &args.tenants).await?;
    let (store, limit) = administrator
        .bulk_storage()
        .await?
        .weights(most)
        .await
        .map_err(stored)?;
    if most.is_some_and(|most| limit < most) {
        let limit = size(limit);
        output::note(format_args!("the broker has room for {limit} of weights"));
    }
    let name = args.name.0.as_str();
    let before = store.get(name).await.map_err(stored)?;
    let bytes = found.iter().map(|tensor| tensor.bytes).sum();
    let hashing = bar(bytes, "reading")?;
    let chunks = found.iter().map(|tensor| hashes(tensor, &hashing));
    let chunks = chunks.collect::<Result<Vec<_>>>()?;
    hashing.finish_and_clear();
    let mut tenants = args.tenants.clone();
    tenants.sort_unstable();
    tenants.dedup();
    let weights = StoredWeights {
        v: 1,
        public: args.public,
        tenants,
        added_ms: calendar::now_ms(),
        tensors: chunks,
    };
    let sent = match before {
        // Nothing has changed.
        Some(before) if before.is_same(&weights) => 0,
        before => {
            let sent = send(&store, name, (&found, &weights.tensors), before.as_ref()).await?;
            store.publish(name, &weights).await.map_err(stored)?;
            sent
        }
    };
    store
        .keep_only(name, &weights.tensors)
        .await
        .map_err(stored)?;
    if json {
        return output::line(as_json(name, &weights));
    }
    output::line(format_args!(
        "{name}: {} tensors, {}, published to {}; {} sent",
        weights.tensors.len(),
        size(weights.bytes()),
        audience(&weights),
        size(sent),
    ))
}

/// Refuses unknown tenants: a misspelt name would never match.
async fn known(administrator: &Administrator, tenants: &[Tenant]) -> Result<()> {
    for tenant in tenants {
        administrator.known(tenant).await?;
    }
    Ok(())
}

/// Sends the tensors that are not yet kept under the name; returns their number of bytes.
async fn send(
    store: &WeightsStore,
    name: &str,
    (found, chunks): (&[FileTensor], &[TensorChunks]),
    before: Option<&StoredWeights>,
) -> Result<u64> {
    let kept = before.map_or(&[][..], |weights| &weights.tensors);
    let kept: BTreeMap<_, _> = kept.iter().map(|tensor| (&tensor.name, tensor)).collect();
    let new = found.iter().zip(chunks);
    let new: Vec<_> = new
        .filter(|(_, chunks)| kept.get(&chunks.name) != Some(chunks))
        .collect();
    let bytes = new.iter().map(|(tensor, _)| tensor.bytes).sum();
    let messages = |tensor: &FileTensor| tensor.bytes.div_ceil(CONTENT_BYTES as u64) + 1;
    let messages = new.iter().map(|(tensor, _)| messages(tensor)).sum();
    store.room_for(bytes, messages).await.map_err(stored)?;
    let sending = bar(bytes, "sending")?;
    for (tensor, chunks) in new {
        let mut part = Part::open(tensor, &sending)?;
        let sent = store.put_tensor(name, chunks, &mut part).await;
        sent.map_err(stored)?;
    }
    sending.finish_and_clear();
    Ok(bytes)
}

fn audience(weights: &StoredWeights) -> String {
    match weights.public {
        true => "all".into(),
        false => {
            let names: Vec<_> = weights.tenants.iter().map(Tenant::as_str).collect();
            names.join(", ")
        }
    }
}

fn as_json(name: &str, weights: &StoredWeights) -> serde_json::Value {
    let tenants: Vec<_> = weights.tenants.iter().map(Tenant::as_str).collect();
    json!({
        "name": name, "public": weights.public, "tenants": tenants,
        "tensors": weights.tensors.len(), "bytes": weights.bytes(), "added_ms": weights.added_ms,
    })
}

/// The store; `None` if nothing was ever kept.
async fn find(administrator: &Administrator) -> Result<Option<WeightsStore>> {
    let storage = administrator.bulk_storage().await?;
    storage.find_weights().await.map_err(stored)
}

async fn list(administrator: &Administrator, json: bool) -> Result<()> {
    let store = find(administrator).await?;
    let mut rows = Vec::new();
    if let Some(store) = store {
        for name in store.names().await.map_err(stored)? {
            // `None` if it was removed in the meantime.
            if let Some(weights) = store.get(&name).await.map_err(stored)? {
                rows.push((name, weights));
            }
        }
    }
    if json {
        return rows
            .iter()
            .try_for_each(|(name, weights)| output::line(as_json(name, weights)));
    }
    if rows.is_empty() {
        return output::line("no weights are kept: `warploom weights add --help`");
    }
    let mut table = headed("name | published to | tensors> | bytes> | added");
    for (name, weights) in &rows {
        table.add_row([
            name.clone(),
            audience(weights),
            weights.tensors.len().to_string(),
            size(weights.bytes()),
            calendar::moment(weights.added_ms),
        ]);
    }
    output::line(fitted(&table))
}

async fn remove(administrator: &Administrator, name: &Name, json: bool) -> Result<()> {
    let store = find(administrator).await?;
    let removed = match store {
        Some(store) => Some(store.remove(&name.0).await.map_err(stored)?),
        None => None,
    };
    let (objects, abandoned) = removed.map_or((0, 0), |it| (it.objects, it.abandoned));
    if abandoned > 0 {
        output::note("what an `add` that was interrupted had written is freed");
    }
    if objects == 0 {
        bail!(
            "nothing is kept under the name {}: `warploom weights list`",
            name.0
        );
    }
    match json {
        true => output::line(json!({"name": name.0, "now": "removed"})),
        false => output::line(format_args!("{} is removed", name.0)),
    }
}
