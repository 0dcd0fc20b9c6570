"""How the embedded model and judge are called where a model's name, or a key, has to be given."""

KEY = "offline"
MODEL = "offline-model"
JUDGE = "offline-judge"
