//! Functions between a call and a definition of which only one has a result. Linkers of machine code do not
//! check this, and compilers make such calls.

use super::declaration::declaration;
use crate::{ParsedFunction, ParsedVariable, Space};
use std::fmt::Write as _;

/// True if a declaration can be adapted to the definition this way.
pub(super) fn is_possible(declared: &ParsedFunction<'_>, defined: &ParsedFunction<'_>) -> bool {
    let lists = [
        &declared.params,
        &declared.returns,
        &defined.params,
        &defined.returns,
    ];
    let mut all = lists.into_iter().flatten();
    declared.returns.is_empty() != defined.returns.is_empty()
        && all.all(|it| it.space == Space::Param && it.size().is_some())
}

/// Bytes moved at a time between two variables of one size.
fn step(size: u64, align: u64) -> u64 {
    let fits = |step: &u64| size.is_multiple_of(*step) && align >= *step;
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// The variables' declarations under new names.
fn named(list: &[ParsedVariable<'_>], prefix: &str) -> Vec<String> {
    let one = |(at, it): (usize, &ParsedVariable<'_>)| {
        declaration(it, &format!("{prefix}{at}"), (it.align, None))
    };
    list.iter().enumerate().map(one).collect()
}

/// The text of a function called `name` with the declared signature, which calls the defined function, called
/// `target`.
pub(super) fn text(
    declared: &ParsedFunction<'_>,
    defined: &ParsedFunction<'_>,
    name: &str,
    target: &str,
) -> String {
    let mut out = ".func ".to_owned();
    let results = named(&declared.returns, "result");
    if !results.is_empty() {
        let _ = write!(out, "({}) ", results.join(", "));
    }
    let params = named(&declared.params, "param").join(", ");
    let _ = writeln!(out, "{name}({params})\n{{");
    out.push_str(".reg .b64 %v8;\n.reg .b32 %v4;\n.reg .b16 %v2, %v1;\n");
    let slots = named(&defined.params, "to");
    for slot in slots.iter().chain(&named(&defined.returns, "from")) {
        let _ = writeln!(out, "{slot};");
    }
    for (at, (from, to)) in declared.params.iter().zip(&defined.params).enumerate() {
        let size = from.size().unwrap_or(0);
        let step = step(size, from.align.min(to.align));
        for offset in (0..size).step_by(step as usize) {
            let bits = 8 * step;
            let _ = writeln!(out, "ld.param.b{bits} %v{step}, [param{at}+{offset}];");
            let _ = writeln!(out, "st.param.b{bits} [to{at}+{offset}], %v{step};");
        }
    }
    let list = |prefix: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|at| format!("{prefix}{at}")).collect();
        names.join(", ")
    };
    let come = match defined.returns.len() {
        0 => String::new(),
        count => format!("({}), ", list("from", count)),
    };
    let gone = match defined.params.len() {
        0 => String::new(),
        count => format!(", ({})", list("to", count)),
    };
    let _ = writeln!(out, "call {come}{target}{gone};");
    // A result that is not given is zero.
    for (at, result) in declared.returns.iter().enumerate() {
        let size = result.size().unwrap_or(0);
        let step = step(size, result.align);
        let kind = 8 * step.max(2);
        let _ = writeln!(out, "mov.b{kind} %v{step}, 0;");
        for offset in (0..size).step_by(step as usize) {
            let _ = writeln!(
                out,
                "st.param.b{} [result{at}+{offset}], %v{step};",
                8 * step
            );
        }
    }
    out.push_str("ret;\n}\n");
    out
}
