//! The pages of all error codes, embedded.

/// Code and Markdown text of every page of `docs/errors`, by code.
pub fn error_pages() -> &'static [(&'static str, &'static str)] {
    include!(concat!(env!("OUT_DIR"), "/error_pages.rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_embedded_in_order() {
        let pages = error_pages();
        assert!(pages.is_sorted() && pages.len() > 20);
        assert!(pages.iter().all(|(code, text)| text.starts_with(&format!("# {code}: "))));
    }
}
