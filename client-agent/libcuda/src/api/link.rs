//! `cuLink`: several PTX images become one, as PTX text.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::options::Options;
use super::{put, put_if, text};
use crate::guard::api;
use crate::handle::Handles;
use crate::module::limit_registers;
use crate::process::process;
use crate::status::{Result, Status, note};

/// `CU_JIT_INPUT_PTX`.
const PTX: c_int = 1;

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

static LINKS: LazyLock<Handles<Link>> = LazyLock::new(Handles::new);

fn add(state: usize, kind: c_int, bytes: &[u8], name: &str) -> Result {
    let link = LINKS.get(state).ok_or(Status::INVALID_HANDLE)?;
    if kind != PTX {
        note(Status::NO_BINARY_FOR_GPU, "only PTX can be linked".into());
        return Err(Status::NO_BINARY_FOR_GPU);
    }
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    let image = (name.to_owned(), bytes[..end].to_vec());
    link.images
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(image);
    Ok(())
}

fn complete(link: &Link) -> Result<Vec<u8>> {
    let images = link.images.lock().unwrap_or_else(PoisonError::into_inner);
    let linked = match &images[..] {
        [(_, only)] => ptx::ModuleInfo::parse(only)
            .map(|_| only.clone())
            .map_err(|e| e.to_string()),
        _ => {
            let images: Vec<_> = images
                .iter()
                .map(|(name, image)| ptx::LinkImage { name, image })
                .collect();
            ptx::link(&images)
                .map(String::into_bytes)
                .map_err(|error| error.to_string())
        }
    };
    let mut text = linked.map_err(|detail| {
        // SAFETY: the link's options are valid while it lives.
        unsafe { link.options.0.log_error(&detail) };
        note(Status::INVALID_PTX, detail);
        Status::INVALID_PTX
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
