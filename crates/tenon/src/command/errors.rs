//! `tenon errors`: the page of an error code, or the list of all.

use clap::Args;
use serde::Serialize;

use super::output::{Output, aligned};
use crate::{Diagnostic, Failure, error_pages};

#[derive(Args)]
pub(super) struct Arguments {
    /// The code, such as E0203; all codes are listed without it
    code: Option<String>,
}

#[derive(Serialize)]
struct Row {
    code: &'static str,
    title: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'static str>,
}

/// `# CODE: TITLE`.
fn title(page: &'static str) -> &'static str {
    page.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, title)| title)
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let pages = error_pages();
    let Some(code) = &arguments.code else {
        let rows: Vec<Row> = pages.iter().map(|(code, page)| Row { code, title: title(page), text: None }).collect();
        if output.json {
            return output.print_json(&rows);
        }
        let cells: Vec<_> = rows.iter().map(|row| vec![row.code.to_owned(), row.title.to_owned()]).collect();
        return output.print(&aligned(&["code", "meaning"], &cells));
    };
    let wanted = code.to_ascii_uppercase();
    let Some((code, page)) = pages.iter().find(|(known, _)| *known == wanted) else {
        let message = format!("there is no error code `{}`", code.chars().take(40).collect::<String>());
        return Err(Diagnostic::new("E0008", message).with_help("`tenon errors` lists all codes").into());
    };
    if output.json {
        output.print_json(&Row { code, title: title(page), text: Some(page) })
    } else {
        output.print(page)
    }
}
