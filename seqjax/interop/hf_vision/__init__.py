"""Networks for images of Hugging Face's: their config.json, their names, their inputs and what comes before those."""
