//! `cuLink`: several PTX images become one, as PTX text.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};

use client_line::ClientError;

use super::module::target;
use super::options::Options;
use super::{put, put_if, text};
use crate::current::current_device;
use crate::fatbin::{self, Refusal, Target};
use crate::guard::api;
use crate::handle::Handles;
use crate::module::limit_registers;
use crate::process::process;
use crate::status::{Result, Status, note};

/// `CUjitInputType`.
const CUBIN: c_int = 0;
const PTX: c_int = 1;
const FATBIN: c_int = 2;
const OBJECT: c_int = 3;
const LIBRARY: c_int = 4;

/// A link in progress.
struct Link {
    images: Mutex<Vec<(String, Vec<u8>)>>,
    /// The result, ended by a zero byte, kept until the link is destroyed.
    result: Mutex<Option<Vec<u8>>>,
    options: Kept,
}

/// The options of a link, whose buffers live as long as it does.
struct Kept(Options);

// SAFETY: the pointers are the program's, which says that they are valid while the link lives; they
// are written by whoever calls, as CUDA does.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}

/// What went wrong, and the log.
type Wrong = (Status, String);

static LINKS: LazyLock<Handles<Link>> = LazyLock::new(Handles::new);

fn add(state: usize, kind: c_int, bytes: &[u8], name: &str) -> Result {
    let link = LINKS.get(state).ok_or(Status::INVALID_HANDLE)?;
    let texts = texts(kind, bytes).map_err(|(status, detail)| {
        let detail = format!("input `{name}`: {detail}");
        // SAFETY: the link's options are valid while it lives.
        unsafe { link.options.0.log_error(&detail) };
        note(status, detail);
        status
    })?;
    let texts = texts.into_iter().map(|text| (name.to_owned(), text));
    let mut images = link.images.lock().unwrap_or_else(PoisonError::into_inner);
    images.extend(texts);
    Ok(())
}

/// The PTX of an input.
fn texts(kind: c_int, bytes: &[u8]) -> std::result::Result<Vec<Vec<u8>>, Wrong> {
    let none = |detail: String| (Status::NO_BINARY_FOR_GPU, detail);
    let target = || {
        let target = target().map_err(|status| (status, "there is no device".to_owned()))?;
        // What is for newer devices is never linked: a library has all there is, for each.
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
            // Of a library only what somebody uses is missed, and by its name.
            match kind == LIBRARY || !texts.is_empty() {
                true => Ok(texts),
                false => Err(none("it has no PTX for this device".into())),
            }
        }
        CUBIN => Err(none("it is machine code of a GPU; link PTX".into())),
        _ => Err(none("only PTX can be linked".into())),
    }
}

/// The images as one. A single one that needs no other stays as it is.
fn linked(images: &[(String, Vec<u8>)]) -> std::result::Result<Vec<u8>, Wrong> {
    if let [(_, only)] = images {
        let parsed = ptx::Module::parse_bytes(only);
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
        ptx::Module::parse_bytes(image)
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

/// Has the current device, if there is one, look at what came of a link: it is loaded next.
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
    let images = link.images.lock().unwrap_or_else(PoisonError::into_inner);
    let linked = linked(&images).and_then(|text| {
        check(&text)?;
        Ok(text)
    });
    let mut text = linked.map_err(|(status, detail)| {
        // SAFETY: the link's options are valid while it lives.
        unsafe { link.options.0.log_error(&detail) };
        note(status, detail);
        status
    })?;
    // SAFETY: as above.
    unsafe {
        link.options.0.log_nothing();
        if let Some(registers) = link.options.0.registers() {
            limit_registers(&text, registers);
        }
    }
    text.push(0);
    Ok(text)
}

api! {
    fn cuLinkCreate_v2(
        count: u32,
        keys: *const c_int,
        values: *mut *mut c_void,
        state: *mut usize,
    ) also cuLinkCreate {
        process()?;
        if state.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let made = LINKS.add(Link {
            images: Mutex::default(),
            result: Mutex::default(),
            options: Kept(Options { count, keys, values }),
        });
        // SAFETY: the caller's pointer.
        unsafe { put(state, made) }
    }

    fn cuLinkAddData_v2(
        state: usize,
        kind: c_int,
        data: *const c_void,
        size: usize,
        name: *const c_char,
        count: u32,
        keys: *const c_int,
        values: *mut *mut c_void,
    ) also cuLinkAddData {
        let _ = (count, keys, values);
        process()?;
        if data.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's pointers; so many bytes are there.
        unsafe {
            let name = if name.is_null() { "" } else { text(name)? };
            add(state, kind, std::slice::from_raw_parts(data.cast(), size), name)
        }
    }

    fn cuLinkAddFile_v2(
        state: usize,
        kind: c_int,
        path: *const c_char,
        count: u32,
        keys: *const c_int,
        values: *mut *mut c_void,
    ) also cuLinkAddFile {
        let _ = (count, keys, values);
        process()?;
        // SAFETY: the caller's pointer.
        let path = unsafe { text(path)? };
        let bytes = std::fs::read(path).map_err(|_| Status::FILE_NOT_FOUND)?;
        add(state, kind, &bytes, path)
    }

    fn cuLinkComplete(state: usize, image: *mut *const c_void, size: *mut usize) {
        process()?;
        let link = LINKS.get(state).ok_or(Status::INVALID_HANDLE)?;
        let text = complete(&link)?;
        let mut result = link.result.lock().unwrap_or_else(PoisonError::into_inner);
        let text = result.insert(text);
        // SAFETY: the caller's pointers; the text stays until the link is destroyed.
        unsafe {
            put(image, text.as_ptr().cast())?;
            put_if(size, text.len());
        }
        Ok(())
    }

    fn cuLinkDestroy(state: usize) {
        process()?;
        LINKS.remove(state).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    }
}
