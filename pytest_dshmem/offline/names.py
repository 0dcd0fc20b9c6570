"""How the embedded model and judge are called where a model's name, or a key, has to be given."""

KEY = "no-key-needed"
MODEL = "offline-model"
JUDGE = "offline-judge"
