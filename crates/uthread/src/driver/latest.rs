//! Where the operation of a token waited last.

use super::Token;

/// By the token's index, so as short as there are operations in flight. A place stays there after the wait: who looks it
/// up has to see whether the token still waits.
pub(super) struct Latest<T>(Vec<Option<T>>);

impl<T> Default for Latest<T> {
    fn default() -> Latest<T> {
        Latest(Vec::new())
    }
}

impl<T: Copy> Latest<T> {
    pub(super) fn insert(&mut self, token: Token, place: T) {
        let index = token.index();
        if index >= self.0.len() {
            self.0.resize(index + 1, None);
        }
        self.0[index] = Some(place);
    }

    pub(super) fn get(&self, token: Token) -> Option<T> {
        self.0.get(token.index()).copied().flatten()
    }
}
