//! `cuLink`: links several PTX images into one, as PTX text.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use client_session::ClientError;

use super::module::{file, target};
use super::options::{Options, Values};
use crate::abi::{Bytes, Count, Handle, List, Out, Text};
use crate::context::Context;
use crate::current_context::current_device;
use crate::fatbin::{self, Refusal, Target};
use crate::guard::api;
use crate::handle::{Object, table};
use crate::lock::lock;
use crate::module::limit_registers;
use crate::stack::top;
use crate::status::{Result, Status, note};

/// `CUjitInputType`.
const CUBIN: c_int = 0;
const PTX: c_int = 1;
const FATBIN: c_int = 2;
const OBJECT: c_int = 3;
const LIBRARY: c_int = 4;

/// A link in progress.
pub(crate) struct Link {
    pub(crate) context: Handle<Context>,
    images: Mutex<Vec<(String, Vec<u8>)>>,
    /// The result with a terminating zero byte, kept until the link is destroyed.
    result: Mutex<Option<Vec<u8>>>,
    options: Kept,
}

/// The options of a link with their buffers, which live as long as the link.
struct Kept(Options<'static>);

// SAFETY: the pointers are the program's, which keeps their targets while the link lives. The
// calling thread, whichever it is, writes there, as with a driver.
unsafe impl Send for Kept {}
// SAFETY: through a shared reference only the program's own logs are written, by its calls that
// name the link. The program orders these calls if several threads make them, as for a driver.
unsafe impl Sync for Kept {}

/// A failure: its status and the log.
type Wrong = (Status, String);

table!(Link, INVALID_HANDLE);

fn add(link: Handle<Link>, kind: c_int, bytes: &[u8], name: &str) -> Result {
    let link = link.get()?;
    let texts = texts(kind, bytes).map_err(|(status, detail)| {
        let detail = format!("input `{name}`: {detail}");
        link.options.0.log_error(&detail);
        note(status, detail);
        status
    })?;
    let texts = texts.into_iter().map(|text| (name.to_owned(), text));
    let mut images = lock(&link.images);
    images.extend(texts);
    Ok(())
}

/// The PTX texts of an input.
fn texts(kind: c_int, bytes: &[u8]) -> std::result::Result<Vec<Vec<u8>>, Wrong> {
    let none = |detail: String| (Status::NO_BINARY_FOR_GPU, detail);
    let target = || {
        let target = target().map_err(|status| (status, "there is no device".to_owned()))?;
        // Entries for newer devices are never linked: a library has an entry for each device.
        Ok(Target {
            newer: false,
            ..target
        })
    };
    match kind {
        PTX => {
            let end = bytes.iter().position(|byte| *byte == 0);
            Ok(vec![bytes[..end.unwrap_or(bytes.len())].to_vec()])
        }
        FATBIN => match fatbin::ptx(bytes, target()?) {
            Ok(text) => Ok(vec![text]),
            Err(Refusal::Malformed(why)) => Err((Status::INVALID_IMAGE, why.into())),
            Err(Refusal::NoPtx(what)) => Err(none(what)),
        },
        OBJECT | LIBRARY => {
            let texts = fatbin::all_ptx(bytes, target()?);
            // A library without PTX is no error yet: a missing function is reported by name when it
            // is used.
            match kind == LIBRARY || !texts.is_empty() {
                true => Ok(texts),
                false => Err(none("it has no PTX for this device".into())),
            }
        }
        CUBIN => Err(none("it is machine code of a GPU; link PTX".into())),
        _ => Err(none("only PTX can be linked".into())),
    }
}

/// Links the images into one. A single image without unresolved symbols stays unchanged.
fn linked(images: &[(String, Vec<u8>)]) -> std::result::Result<Vec<u8>, Wrong> {
    if let [(_, only)] = images {
        let parsed = ptx::ParsedModule::parse_bytes(only);
        let module = parsed.map_err(|error| (Status::INVALID_PTX, error.to_string()))?;
        if module
            .functions
            .iter()
            .all(|it| it.linkage != ptx::Linkage::Extern)
        {
            return Ok(only.clone());
        }
    }
    let one = |(name, image): &(String, Vec<u8>)| {
        ptx::ParsedModule::parse_bytes(image)
            .err()
            .map(|error| (Status::INVALID_PTX, format!("input `{name}`, {error}")))
    };
    if let Some(wrong) = images.iter().find_map(one) {
        return Err(wrong);
    }
    let parts = images
        .iter()
        .map(|(name, image)| ptx::LinkImage { name, image });
    let linked = ptx::link(&parts.collect::<Vec<_>>());
    linked
        .map(String::into_bytes)
        .map_err(|error| (Status::NO_BINARY_FOR_GPU, error.to_string()))
}

/// Checks the result of a link on the current device, if there is one; it is loaded next.
fn check(text: &[u8]) -> std::result::Result<(), Wrong> {
    let Ok(device) = current_device() else {
        return Ok(());
    };
    device.round_trip(true);
    device.session().prepare(text).map_err(|error| {
        let detail = match &error {
            ClientError::Refused(failure) | ClientError::Session(failure) => failure.detail.clone(),
            other => other.to_string(),
        };
        (error.into(), detail)
    })
}

fn complete(link: &Link) -> Result<Vec<u8>> {
    let images = lock(&link.images);
    let linked = linked(&images).and_then(|text| {
        check(&text)?;
        Ok(text)
    });
    let mut text = linked.map_err(|(status, detail)| {
        link.options.0.log_error(&detail);
        note(status, detail);
        status
    })?;
    link.options.0.log_nothing();
    if let Some(registers) = link.options.0.registers() {
        limit_registers(&text, registers);
    }
    text.push(0);
    Ok(text)
}

api! {
    // The program keeps the options and their buffers until it destroys the link.
    fn cuLinkCreate_v2(
        count: Count<'static, u32>, keys: List<'static, c_int>, values: Values<'static>,
        link: Out<'_, Handle<Link>>,
    ) also cuLinkCreate {
        link.put_made(|| {
            Ok(Link::table().add(Link {
                context: top(),
                images: Mutex::default(),
                result: Mutex::default(),
                options: Kept(Options { count, keys, values }),
            }))
        })
    }

    fn cuLinkAddData_v2<'c>(
        link: Handle<Link>, kind: c_int, data: Bytes<'c>, size: Count<'c>, name: Text<'_>,
        _count: Count<'_, u32>, _keys: List<'_, c_int>, _values: Values<'_>,
    ) also cuLinkAddData => add(link, kind, data.slice(size)?, name.take_or_empty()?);

    fn cuLinkAddFile_v2(
        link: Handle<Link>, kind: c_int, path: Text<'_>,
        _count: Count<'_, u32>, _keys: List<'_, c_int>, _values: Values<'_>,
    ) also cuLinkAddFile {
        let path = path.take()?;
        add(link, kind, &file(path)?, path)
    }

    fn cuLinkComplete(link: Handle<Link>, image: Out<'_, *const c_void>, size: Out<'_, usize>) {
        let link = link.get()?;
        image.check()?;
        let text = complete(&link)?;
        let mut result = lock(&link.result);
        let text = result.insert(text);
        // The text stays valid until the link is destroyed.
        image.put(text.as_ptr().cast())?;
        size.put_if(text.len());
        Ok(())
    }

    fn cuLinkDestroy(link: Handle<Link>) => link.remove();
}
