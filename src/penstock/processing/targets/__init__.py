"""What events of streams are copied to, and asked how far it has come: another hub, a MessageDB."""
