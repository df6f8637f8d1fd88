//! PTX as text: what a file must have once, and what each kernel brings.

use super::CodegenError;

/// Directives that a file has once, at its start. Source: PTX ISA, "PTX Module Directives".
const HEADER: [&str; 3] = [".version", ".target", ".address_size"];

/// The first function that the text declares without defining it.
pub(super) fn external_function(ptx: &str) -> Option<String> {
    let (_, declaration) = ptx.split_once(".extern .func")?;
    // `.extern .func (.param …) name(…)`: the name stands before the last list of parameters.
    let declaration = declaration.split(';').next().unwrap_or(declaration);
    let before = declaration.trim_end().trim_end_matches(')').rsplit_once('(').map_or(declaration, |(name, _)| name);
    let name = before.trim().rsplit(|c: char| c.is_whitespace() || c == ')').next().unwrap_or(before);
    Some(name.to_owned())
}

/// One file of all kernels: one header, then each kernel's declarations and entry, files of lines numbered anew.
///
/// All texts must be for one target, and their symbols distinct.
pub fn concatenate_ptx(texts: &[String]) -> Result<String, CodegenError> {
    let mut header: Option<Vec<String>> = None;
    let mut files: Vec<String> = Vec::new();
    let mut bodies = Vec::new();
    for text in texts {
        let mut own = Vec::new();
        // The numbers that the text gave its files, and those that they get.
        let named: Vec<(u64, usize)> = text
            .lines()
            .filter_map(|line| {
                let (number, name) = line.trim().strip_prefix(".file")?.trim_start().split_once(char::is_whitespace)?;
                let number = number.parse().ok()?;
                let index = files.iter().position(|known| known == name.trim()).unwrap_or_else(|| {
                    files.push(name.trim().to_owned());
                    files.len() - 1
                });
                Some((number, index + 1))
            })
            .collect();
        let mut body = String::new();
        for line in text.lines() {
            let trimmed = line.trim();
            if HEADER.iter().any(|directive| trimmed.starts_with(directive)) {
                own.push(trimmed.to_owned());
            } else if [".file", ".section", "//"].iter().any(|start| trimmed.starts_with(start)) || trimmed.is_empty() {
                // Files are listed at the end; debug sections are empty; comments of the code generator say nothing.
            } else if let Some(rest) = trimmed.strip_prefix(".loc") {
                let (number, rest) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest, ""));
                let number = number.parse::<u64>().ok();
                if let Some((_, index)) = named.iter().find(|(old, _)| Some(*old) == number) {
                    // The comment repeats the file's name.
                    let place = rest.split("//").next().unwrap_or(rest).trim();
                    body.push_str(&format!("\t.loc\t{index} {place}\n"));
                }
            } else {
                body.push_str(line.trim_end());
                body.push('\n');
            }
        }
        match &header {
            None => header = Some(own),
            Some(header) if *header == own => {}
            Some(header) => {
                let reason = format!("`{}` and `{}`", header.join(" "), own.join(" "));
                return Err(CodegenError::Concatenate(reason));
            }
        }
        bodies.push(unique_labels(&body, bodies.len()));
    }
    let mut all = header.unwrap_or_default().join("\n");
    all.push('\n');
    for body in bodies {
        all.push('\n');
        all.push_str(&body);
    }
    for (index, file) in files.iter().enumerate() {
        all.push_str(&format!("\t.file\t{} {file}\n", index + 1));
    }
    Ok(all)
}

/// Labels of the code generator (`$L…`) made distinct from those of other texts.
fn unique_labels(body: &str, index: usize) -> String {
    body.replace("$L__", &format!("$L{index}__"))
}

/// The PTX of a kernel under another name: its entry, and the symbols that are called after it, its parameters and shared memory.
pub fn renamed(ptx: &str, from: &str, to: &str) -> String {
    if from == to || from.is_empty() {
        return ptx.to_owned();
    }
    let is_identifier = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
    let mut text = String::with_capacity(ptx.len() + ptx.len() / 64);
    for line in ptx.split_inclusive('\n') {
        // Names of files are the model's.
        if line.trim_start().starts_with(".file") {
            text.push_str(line);
            continue;
        }
        let mut rest = line;
        while let Some(start) = rest.find(from) {
            let (before, found) = rest.split_at(start);
            let after = &found[from.len()..];
            let previous = before.chars().next_back().or_else(|| text.chars().next_back());
            let begins = !previous.is_some_and(is_identifier);
            let ends = !after.starts_with(is_identifier)
                || ["_param_", "_shared"].iter().any(|suffix| after.starts_with(suffix));
            text.push_str(before);
            text.push_str(if begins && ends { to } else { from });
            rest = after;
        }
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const A: &str = "//\n// Generated\n//\n\n.version 7.8\n.target sm_80\n.address_size 64\n\n.visible .entry a()\n{\n\t.loc\t1 3 0 // m.onnx:3:0\n$L__BB0_1:\n\tbra $L__BB0_1;\n}\n\t.file\t1 \"m.onnx\"\n";

    #[test]
    fn one_header_and_distinct_labels() {
        let b = A.replace(".entry a", ".entry b").replace("\"m.onnx\"", "\"n.onnx\"");
        let all = concatenate_ptx(&[A.to_owned(), b]).unwrap();
        assert_eq!(all.matches(".version").count(), 1);
        assert_eq!(all.matches(".entry").count(), 2);
        assert!(all.contains("$L0__BB0_1:") && all.contains("$L1__BB0_1:") && !all.contains("$L__"));
        assert!(all.contains(".loc\t2 3 0\n") && all.contains(".file\t2 \"n.onnx\""));
    }

    #[test]
    fn targets_must_agree() {
        let b = A.replace("sm_80", "sm_90a");
        assert_eq!(concatenate_ptx(&[A.to_owned(), b]).unwrap_err().code(), "E0521");
    }

    #[test]
    fn a_kernel_is_renamed_with_all_that_is_called_after_it() {
        let text = ".extern .shared .align 16 .b8 k1_shared[];\n.visible .entry k1(\n\t.param .u64 k1_param_0\n)\n{\n\
                    \tld.param.b64 %rd1, [k1_param_0];\n\tmov.b32 %k1x, k10;\n\tmov.u32 %r1, k1_shared;\n}\n\t.file 1 \"k1\"\n";
        let expected = ".extern .shared .align 16 .b8 other_shared[];\n.visible .entry other(\n\t.param .u64 other_param_0\n)\n{\n\
                        \tld.param.b64 %rd1, [other_param_0];\n\tmov.b32 %k1x, k10;\n\tmov.u32 %r1, other_shared;\n}\n\t.file 1 \"k1\"\n";
        assert_eq!(renamed(text, "k1", "other"), expected);
        assert_eq!(renamed("k1k1 k1_k1 xk1", "k1", "y"), "k1k1 k1_k1 xk1");
        assert_eq!(renamed(text, "k1", "k1"), text);
    }

    #[test]
    fn calls_to_nothing_are_found() {
        let text = ".extern .func  (.param .b32 func_retval0) __nv_expf\n(\n\t.param .b32 __nv_expf_param_0\n)\n;";
        assert_eq!(external_function(text).as_deref(), Some("__nv_expf"));
        assert_eq!(external_function(A), None);
    }
}
