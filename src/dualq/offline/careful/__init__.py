"""The careful model: thin pairs shrink towards what is alike, doubt is penalised, the winner's curse is taken off."""
