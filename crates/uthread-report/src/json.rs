//! Results as JSON with a line for each measurement, so that a comparison of two files shows which
//! measurements differ.
//!
//! An array or object near the root has a line for each of its elements. One deeper inside is
//! written on a single line.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use crate::results::Results;

/// Containers around a [`Round`](crate::results::Round), each with a line for each of its elements:
/// results, studies, study, panels, panel, rounds, point, subject.
const DEPTH_MAX: usize = 8;

/// Formats results as JSON that ends with a newline.
///
/// # Errors
///
/// None of [`Results`]: their keys are names of fields.
pub fn format(results: &Results) -> serde_json::Result<String> {
    format_value(results)
}

fn format_value(value: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(
        &mut bytes,
        Lines::default(),
    ))?;
    bytes.push(b'\n');
    Ok(String::from_utf8(bytes).expect("serde_json writes UTF-8"))
}

#[derive(Default)]
struct Lines {
    /// Open containers.
    depth: usize,
    /// `true` if the container that ends next has elements.
    has_elements: bool,
}

impl Lines {
    fn begin(&mut self, writer: &mut (impl Write + ?Sized), bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.has_elements = false;
        writer.write_all(bracket)
    }

    fn end(&mut self, writer: &mut (impl Write + ?Sized), bracket: &[u8]) -> io::Result<()> {
        let is_broken = self.has_elements && self.depth <= DEPTH_MAX;
        self.depth -= 1;
        self.has_elements = true;
        if is_broken {
            self.start_line(writer)?;
        }
        writer.write_all(bracket)
    }

    fn begin_element(
        &mut self,
        writer: &mut (impl Write + ?Sized),
        is_first: bool,
    ) -> io::Result<()> {
        if !is_first {
            writer.write_all(b",")?;
        }
        self.has_elements = true;
        if self.depth <= DEPTH_MAX {
            self.start_line(writer)
        } else if is_first {
            Ok(())
        } else {
            writer.write_all(b" ")
        }
    }

    fn start_line(&self, writer: &mut (impl Write + ?Sized)) -> io::Result<()> {
        write!(writer, "\n{:1$}", "", self.depth)
    }
}

impl Formatter for Lines {
    fn begin_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        is_first: bool,
    ) -> io::Result<()> {
        self.begin_element(writer, is_first)
    }

    fn begin_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"}")
    }

    fn begin_object_key<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        is_first: bool,
    ) -> io::Result<()> {
        self.begin_element(writer, is_first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::results::tests::committed_files;

    #[test]
    fn containers_have_a_line_for_each_element_down_to_a_round() {
        let round = json!({ "Taken": { "figures": [1.0, null] } });
        let value = json!({ "limits": [], "rounds": [[[[[[[round, "no"]]]]]]] });
        let expected = r#"{
 "limits": [],
 "rounds": [
  [
   [
    [
     [
      [
       [
        {"Taken": {"figures": [1.0, null]}},
        "no"
       ]
      ]
     ]
    ]
   ]
  ]
 ]
}
"#;
        let text = format_value(&value).unwrap();
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn the_committed_report_is_written_as_it_was_read() {
        // Reading a report and writing it again must not change it: a run adds its studies to those
        // of the committed report.
        for committed in committed_files() {
            let text = format(&serde_json::from_str(&committed).unwrap()).unwrap();
            let differs = text.lines().zip(committed.lines()).find(|(a, b)| a != b);
            assert_eq!(differs, None, "uthread_report::json writes other lines");
            assert_eq!(text.len(), committed.len());
        }
    }
}
