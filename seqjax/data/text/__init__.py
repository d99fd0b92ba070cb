"""Text to token ids and back: tokenizers, masking and span corruption."""
