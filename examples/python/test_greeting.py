import unittest

from greeting import greeting


class Greeting(unittest.TestCase):
    def test_somebody_is_greeted_by_name(self):
        self.assertEqual(greeting("Ada"), "Hello, Ada!")
