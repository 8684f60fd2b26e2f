"""Trees: an ordered map from paths to entries whose root hash names its whole content, and its bytes."""
