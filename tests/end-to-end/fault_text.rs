//! A kernel's fault on stderr: all that is known of it, once, and nothing that drivers say themselves.

use test_cluster::TempDir;

use crate::run::{compile, text, warploom};

/// Runs a part of `past.c`. Returns the address that it printed, and its stderr.
fn run(part: &str) -> (String, String) {
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "past");
    let mut command = warploom(dir.path());
    command.args(["run", "--"]).arg(&program).arg(part);
    let (out, err) = text(&command.output().expect("it runs"));
    let address = out.trim().to_owned();
    assert!(address.starts_with("0x"), "{out}{err}");
    (address, err)
}

#[test]
fn a_fault_says_line_thread_and_allocation_once() {
    let (address, err) = run("past");
    let first = u64::from_str_radix(&address[2..], 16).expect("hex");
    let wanted = format!(
        "warploom: E-KERNEL-ADDRESS: illegal address in kernel `saxpy`, src/saxpy.cu:12 (PTX line 18)\n\
         warploom:   block [0, 0, 0], thread [37, 0, 0], read of 4 bytes at {:#x}: right at the end of an allocation \
         of 4096 bytes at {address}\n",
        first + 4096
    );
    assert_eq!(err.matches(&wanted).count(), 1, "{err}");
    assert_eq!(err.matches("E-KERNEL").count(), 1, "{err}");
}

#[test]
fn an_access_to_freed_memory_names_it() {
    let (address, err) = run("freed");
    let wanted = format!("within an allocation of 4096 bytes at {address} that was freed\n");
    assert_eq!(err.matches(&wanted).count(), 1, "{err}");
}

#[test]
fn a_false_assertion_is_said_as_drivers_do_and_not_twice() {
    let (_, err) = run("false");
    let wanted = "a.cu:7: a.cu: block: [0,0,0], thread: [0,0,0] Assertion `x < y` failed.\n";
    assert_eq!(err.matches(wanted).count(), 1, "{err}");
    assert!(!err.contains("warploom: E-"), "{err}");
}
